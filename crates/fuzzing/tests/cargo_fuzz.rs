//! What `cargo fuzz` runs is in a workspace of its own, which nothing here compiles: it has the same
//! targets, and each by the same words.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fuzzing::TARGETS;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

#[test]
fn each_target_has_a_file_that_runs_it_and_there_are_no_others() {
    let expected: BTreeMap<String, String> = TARGETS
        .iter()
        .map(|(name, _)| {
            let call = format!("|data: &[u8]| fuzzing::run(\"{name}\", data)");
            let text = format!("#![no_main]\n\nlibfuzzer_sys::fuzz_target!({call});\n");
            (format!("{name}.rs"), text)
        })
        .collect();
    let found: BTreeMap<String, String> = fs::read_dir(folder().join("fuzz_targets"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn the_manifest_names_each_target_once() {
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let programs: Vec<&str> = manifest.split("[[bin]]\n").skip(1).map(str::trim).collect();
    let expected: Vec<String> = TARGETS
        .iter()
        .map(|(name, _)| {
            let path = format!("fuzz_targets/{name}.rs");
            let program = format!("name = \"{name}\"\npath = \"{path}\"\n");
            format!("{program}test = false\ndoc = false\nbench = false")
        })
        .collect();
    assert_eq!(programs, expected);
}

#[test]
fn each_target_has_seeds() {
    let mut folders: Vec<String> = fs::read_dir(folder().join("corpus"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut expected = TARGETS.map(|(name, _)| name);
    expected.sort_unstable();
    assert_eq!(folders, expected);
}

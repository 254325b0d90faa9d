//! The README is what partners are handed.

use e2e::stack::read;

use crate::Language;

/// The blocks of code of a language in the README's section for partners.
fn blocks(name: &str) -> Vec<String> {
    let readme = read("", "README.md");
    let (_, section) = readme
        .split_once("\n## For partners\n")
        .expect("For partners");
    let (section, _) = section.split_once("\n## ").expect("a next section");
    let begin = format!("\n```{name}\n");
    let blocks = section.split(&begin).skip(1);
    blocks
        .map(|block| block.split_once("\n```").unwrap().0.to_owned())
        .collect()
}

#[test]
fn what_it_shows_is_what_the_tests_run() {
    for language in Language::ALL {
        let name = match language {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::JavaScript => "javascript",
        };
        let file = read("examples", language.example());
        let blocks = blocks(name);
        assert_eq!(blocks.len(), 1, "{language:?}");
        for block in &blocks {
            assert!(file.contains(block), "{language:?}: {block}");
        }
    }
}

//! SQS refuses some characters that JSON allows. A message with one of them fails its whole
//! `SendMessageBatch` entry, so they travel as JSON escapes.

/// Replaces the characters that SQS refuses but that may stand raw in JSON, U+FFFE and U+FFFF,
/// by `\u` escapes.
///
/// SQS takes #x9, #xA, #xD, #x20–#xD7FF, #xE000–#xFFFD and #x10000–#x10FFFF. JSON already
/// demands that control characters inside strings are escaped, and outside of strings it allows
/// only those that SQS takes, so these two are all that is left. They can only stand inside a
/// JSON string, where `\uffff` means the same character.
pub(crate) fn escape_refused_characters(json: String) -> String {
    const REFUSED: [char; 2] = ['\u{fffe}', '\u{ffff}'];
    if !json.contains(REFUSED) {
        return json;
    }
    json.replace('\u{fffe}', "\\ufffe")
        .replace('\u{ffff}', "\\uffff")
}

#[cfg(test)]
mod tests {
    use super::escape_refused_characters;

    #[test]
    fn refused_characters_become_escapes_and_all_others_stay() {
        assert_eq!(
            escape_refused_characters("{\"a\":\"x\u{ffff}y\u{fffe}\u{fffd}😀\u{7f}\"}".into()),
            "{\"a\":\"x\\uffffy\\ufffe\u{fffd}😀\u{7f}\"}"
        );
    }
}

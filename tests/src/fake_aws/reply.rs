//! What is answered to a call, as a value.

use serde_json::{Value, json};

use super::protocol::Protocol;
use super::{cbor, cloudformation, entries};

/// What is answered to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// What AWS would answer, from the items and parameters in memory.
    Usual,
    /// The same without its last bytes, this many, and of a length that fits.
    CutShort(usize),
    /// The same of a batch call of DynamoDB, which leaves all of this table unprocessed.
    Unprocessed(&'static str),
    /// Status 200 and this output.
    Output(Value),
    /// Status 200 and this text, whatever it is.
    Text(String),
    /// An error.
    Error {
        /// The HTTP status.
        status: u16,
        /// Its name, for example `ThrottlingException`.
        code: &'static str,
        /// Its message.
        message: String,
    },
    /// Nothing, for ever.
    Hang,
    /// The connection is cut.
    Cut,
}

impl From<Result<Value, Self>> for Reply {
    fn from(result: Result<Value, Self>) -> Self {
        result.map_or_else(|refusal| refusal, Self::Output)
    }
}

impl Reply {
    /// An error with a message that says little.
    #[must_use]
    pub fn error(status: u16, code: &'static str) -> Self {
        Self::refusal(status, code, format!("{code}, says the test"))
    }

    /// The answer to a batch call of SQS in which these entries are listed as failed and the
    /// others as successful.
    #[must_use]
    pub fn partly_refused(
        input: &Value,
        refused: impl Fn(&Value) -> bool,
        code: &str,
        sender_fault: bool,
    ) -> Self {
        let mut successful = Vec::new();
        let mut failed = Vec::new();
        for entry in entries(input) {
            let id = &entry["Id"];
            if refused(entry) {
                let message = "refused by the test";
                failed.push(json!({"Id": id, "SenderFault": sender_fault, "Code": code, "Message": message}));
            } else {
                successful.push(json!({"Id": id, "MessageId": "m", "MD5OfMessageBody": "-"}));
            }
        }
        Self::Output(json!({"Successful": successful, "Failed": failed}))
    }

    /// The same with this message in every entry that is listed as failed.
    ///
    /// # Panics
    /// If it is not the answer to a batch call of SQS.
    #[must_use]
    pub fn saying(mut self, message: &str) -> Self {
        let Self::Output(output) = &mut self else {
            panic!("{self:?} lists no entries");
        };
        for failure in output["Failed"].as_array_mut().expect("`Failed`") {
            failure["Message"] = message.into();
        }
        self
    }

    pub(super) fn refusal(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self::Error {
            status,
            code,
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::refusal(400, "ValidationException", message)
    }

    pub(super) fn cut_short(self, bytes: usize) -> Self {
        let Self::Output(output) = self else {
            panic!("{self:?} can not be cut short");
        };
        let mut text = output.to_string();
        text.truncate(text.len() - bytes);
        Self::Text(text)
    }

    /// The answer to a batch call of DynamoDB that was made without a part of it.
    pub(super) fn with_unprocessed(self, table: &str, requests: &Value) -> Self {
        let Self::Output(mut output) = self else {
            return self;
        };
        let is_read = output["UnprocessedItems"].is_null();
        if is_read {
            output["Responses"][table] = json!([]);
        }
        let unprocessed = if is_read {
            "UnprocessedKeys"
        } else {
            "UnprocessedItems"
        };
        output[unprocessed][table] = requests.clone();
        Self::Output(output)
    }

    /// Status and body, or `None` if the connection is to be cut.
    pub(super) async fn into_body(self, protocol: Protocol) -> Option<(u16, Vec<u8>)> {
        let (status, output) = match self {
            Self::Output(output) => (200, output),
            Self::Text(text) => return Some((200, text.into_bytes())),
            Self::Error {
                status,
                code,
                message,
            } => match protocol {
                Protocol::Form => {
                    let error = cloudformation::error(code, &message);
                    return Some((status, error.into_bytes()));
                }
                Protocol::Json | Protocol::Cbor => {
                    (status, json!({"__type": code, "message": message}))
                }
            },
            Self::Hang => std::future::pending().await,
            Self::Cut | Self::Usual | Self::CutShort(_) | Self::Unprocessed(_) => return None,
        };
        let body = match protocol {
            Protocol::Cbor => cbor::write(&output),
            Protocol::Json | Protocol::Form => output.to_string().into_bytes(),
        };
        Some((status, body))
    }
}

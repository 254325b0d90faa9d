//! Which jobs go into one `SendMessageBatch`: as many as SQS takes, by count and by bytes.

/// SQS takes at most ten entries in a batch.
pub const MAX_ENTRIES: usize = 10;

/// SQS takes at most 1 MiB in one message, and as much in a whole batch, in bytes of UTF-8. Our
/// messages have no attributes, so their bodies are all that counts.
pub const MAX_BYTES: usize = 1_048_576;

/// Collects message bodies into batches, in order.
#[derive(Debug, Default)]
pub struct Packer {
    batch: Vec<Packed>,
    bytes: usize,
}

/// One message, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// `MessageGroupId`: the subscriber, so that a busy one does not make the others wait (SQS
    /// fair queues).
    pub group: String,
    /// The message body.
    pub body: String,
}

/// A message that no batch can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the job has {bytes} bytes, SQS takes at most {MAX_BYTES}")]
pub struct TooLarge {
    /// Its size.
    pub bytes: usize,
}

impl Packer {
    /// Adds a message, and gives back the batch before it if the message does not fit into that.
    ///
    /// # Errors
    /// If the message is too large for a batch of its own. It is not kept, and what was collected
    /// stays.
    pub fn push(&mut self, message: Packed) -> Result<Option<Vec<Packed>>, TooLarge> {
        let bytes = message.body.len();
        if bytes > MAX_BYTES {
            return Err(TooLarge { bytes });
        }
        let full = self.batch.len() == MAX_ENTRIES || self.bytes + bytes > MAX_BYTES;
        let ready = if full { self.finish() } else { None };
        self.bytes += bytes;
        self.batch.push(message);
        Ok(ready)
    }

    /// The batch that was begun, if any.
    pub fn finish(&mut self) -> Option<Vec<Packed>> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        (!batch.is_empty()).then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Packed {
        Packed {
            group: "s".into(),
            body: "x".repeat(bytes),
        }
    }

    fn batch_lengths(sizes: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut packer = Packer::default();
        let mut lengths = Vec::new();
        for size in sizes {
            lengths.extend(packer.push(message(size)).unwrap().map(|batch| batch.len()));
        }
        lengths.extend(packer.finish().map(|batch| batch.len()));
        assert_eq!(packer.finish(), None);
        lengths
    }

    #[test]
    fn ten_entries_fill_a_batch() {
        assert_eq!(batch_lengths([]), [] as [usize; 0]);
        assert_eq!(batch_lengths([1; 10]), [10]);
        assert_eq!(batch_lengths([1; 11]), [10, 1]);
        assert_eq!(batch_lengths([1; 25]), [10, 10, 5]);
        assert_eq!(batch_lengths([1; 1000]), [10; 100]);
    }

    #[test]
    fn one_mebibyte_fills_a_batch() {
        assert_eq!(batch_lengths([300 * 1024; 5]), [3, 2]);
        assert_eq!(batch_lengths([MAX_BYTES, 1]), [1, 1]);
        assert_eq!(batch_lengths([MAX_BYTES - 1, 1, 1]), [2, 1]);
    }

    #[test]
    fn a_message_too_large_alone_is_refused_and_the_others_go_on() {
        let mut packer = Packer::default();
        assert_eq!(packer.push(message(1)), Ok(None));
        assert_eq!(
            packer.push(message(MAX_BYTES + 1)),
            Err(TooLarge {
                bytes: MAX_BYTES + 1
            })
        );
        assert_eq!(packer.push(message(1)), Ok(None));
        assert_eq!(packer.finish().unwrap().len(), 2);
    }

    #[test]
    fn bytes_of_utf_8_are_counted_not_characters() {
        let mut packer = Packer::default();
        let body = "é".repeat(MAX_BYTES / 2);
        assert_eq!(
            packer.push(Packed {
                group: "s".into(),
                body
            }),
            Ok(None)
        );
        assert_eq!(packer.push(message(1)).unwrap().unwrap().len(), 1);
    }
}

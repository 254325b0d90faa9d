//! The signing secrets in SSM Parameter Store: one SecureString for each subscriber,
//! `/{prefix}/{subscriberId}/signing-secret`.
//!
//! A value is only ever asked for with its decryption: without it SSM answers with a ciphertext,
//! which can be taken for a secret.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::ProvideErrorMetadata as _;
use aws_sdk_ssm::types::ParameterType;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::{self, SecretsError, SigningSecrets};

use crate::aws;
use crate::error::Error;
use crate::stack::Stack;

/// `GetParameters` takes ten names.
const NAMES_PER_CALL: usize = 10;

/// The value of a parameter, or a part of it: one secret or several. `Debug` tells nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(String);

impl Value {
    /// This one.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for whoever may see it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The secrets in it.
    ///
    /// # Errors
    /// If it can not be signed with.
    pub fn secrets(&self) -> Result<SigningSecrets, SecretsError> {
        SigningSecrets::parse(&self.0)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(redacted)")
    }
}

/// A parameter as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its value.
    pub value: Value,
    /// Counts its changes, from 1.
    pub version: i64,
    /// Whether it is a SecureString: encrypted, and shown to nobody who may not use its key.
    pub is_secure: bool,
}

/// What became of the wish to make a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was made.
    Done,
    /// There is one already, which was left alone.
    Existed,
}

/// The parameters of a stack.
#[derive(Debug, Clone)]
pub struct Parameters {
    client: Client,
    prefix: String,
    /// The customer's own key that encrypts them, if there is one.
    key_id: Option<String>,
}

impl Parameters {
    /// Those of a stack.
    #[must_use]
    pub fn new(aws: &SdkConfig, stack: &Stack) -> Self {
        Self {
            client: Client::new(aws),
            prefix: stack.secret_prefix.clone(),
            key_id: stack.parameter("SecretsKmsKeyArn").map(str::to_owned),
        }
    }

    /// The name of a subscriber's parameter.
    #[must_use]
    pub fn name(&self, subscriber: &SubscriberId) -> String {
        secret::parameter_name(&self.prefix, subscriber.as_str())
    }

    /// A subscriber's parameter; nothing if there is none.
    ///
    /// # Errors
    /// If it can not be read.
    pub async fn read(&self, subscriber: &SubscriberId) -> Result<Option<Parameter>, Error> {
        let mut found = self.ask(std::slice::from_ref(subscriber)).await?;
        Ok(found.remove(subscriber).flatten())
    }

    /// The parameters of many subscribers. One that can not be read does not keep the others back.
    pub async fn read_many(
        &self,
        subscribers: &BTreeSet<SubscriberId>,
    ) -> BTreeMap<SubscriberId, Result<Option<Parameter>, Error>> {
        let all: Vec<SubscriberId> = subscribers.iter().cloned().collect();
        let mut results = BTreeMap::new();
        for chunk in all.chunks(NAMES_PER_CALL) {
            match self.ask(chunk).await {
                Ok(found) => results.extend(found.into_iter().map(|(id, read)| (id, Ok(read)))),
                // One name that may not be read, or whose key is disabled, makes SSM refuse all.
                Err(_) => {
                    for subscriber in chunk {
                        results.insert(subscriber.clone(), self.read(subscriber).await);
                    }
                }
            }
        }
        results
    }

    /// Asks for at most ten.
    async fn ask(
        &self,
        subscribers: &[SubscriberId],
    ) -> Result<BTreeMap<SubscriberId, Option<Parameter>>, Error> {
        let names = subscribers.iter().map(|id| self.name(id)).collect();
        let answer = self
            .client
            .get_parameters()
            .set_names(Some(names))
            .with_decryption(true)
            .send()
            .await
            .map_err(|error| aws::failure("ssm:GetParameters", &error))?;
        let read = |subscriber: &SubscriberId| {
            let name = self.name(subscriber);
            let mut parameters = answer.parameters().iter();
            let found = parameters.find(|parameter| parameter.name() == Some(&name))?;
            Some(Parameter {
                value: Value::new(found.value()?.to_owned()),
                version: found.version(),
                is_secure: found.r#type() == Some(&ParameterType::SecureString),
            })
        };
        Ok(subscribers
            .iter()
            .map(|subscriber| (subscriber.clone(), read(subscriber)))
            .collect())
    }

    /// Makes a subscriber's parameter, unless there is one.
    ///
    /// # Errors
    /// If it can not be made.
    pub async fn create(&self, subscriber: &SubscriberId, value: &Value) -> Result<Created, Error> {
        let put = self.put(subscriber, value).overwrite(false).send().await;
        match put {
            Ok(_) => Ok(Created::Done),
            Err(error) if error.code() == Some("ParameterAlreadyExists") => Ok(Created::Existed),
            Err(error) => Err(aws::failure("ssm:PutParameter", &error)),
        }
    }

    /// Replaces the value of a subscriber's parameter and gives its new version. SSM knows no
    /// condition: a version that is not the next after the one that was read tells that somebody
    /// else's value was overwritten.
    ///
    /// # Errors
    /// If it can not be written.
    pub async fn replace(&self, subscriber: &SubscriberId, value: &Value) -> Result<i64, Error> {
        let put = self.put(subscriber, value).overwrite(true).send().await;
        let answer = put.map_err(|error| aws::failure("ssm:PutParameter", &error))?;
        Ok(answer.version())
    }

    /// Deletes a subscriber's parameter, and tells whether there was one.
    ///
    /// # Errors
    /// If it can not be deleted.
    pub async fn delete(&self, subscriber: &SubscriberId) -> Result<bool, Error> {
        let name = self.name(subscriber);
        match self.client.delete_parameter().name(name).send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("ParameterNotFound") => Ok(false),
            Err(error) => Err(aws::failure("ssm:DeleteParameter", &error)),
        }
    }

    fn put(
        &self,
        subscriber: &SubscriberId,
        value: &Value,
    ) -> aws_sdk_ssm::operation::put_parameter::builders::PutParameterFluentBuilder {
        self.client
            .put_parameter()
            .name(self.name(subscriber))
            .r#type(ParameterType::SecureString)
            // A change without a key would be encrypted with the AWS managed one.
            .set_key_id(self.key_id.clone())
            .value(value.reveal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_tells_nothing_of_a_value() {
        let parameter = Parameter {
            value: Value::new("whsec_hidden".into()),
            version: 3,
            is_secure: true,
        };
        assert_eq!(
            format!("{parameter:?}"),
            "Parameter { value: Value(redacted), version: 3, is_secure: true }"
        );
    }
}

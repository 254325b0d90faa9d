//! A certificate authority for partners that speak TLS.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::Error;

/// Makes an authority and a certificate of it for this machine's loopback address. Writes the
/// authority's own certificate to `file`, as PEM.
///
/// # Errors
/// If it can not be made or written.
pub fn server(file: &Path) -> Result<Arc<ServerConfig>, Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = "sqs-webhooks bench";
    authority.distinguished_name.push(DnType::CommonName, name);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    std::fs::write(file, pem(issuer.der()))?;
    let key = KeyPair::generate()?;
    let names = vec![Ipv4Addr::LOCALHOST.to_string()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )?;
    Ok(Arc::new(config))
}

/// A certificate in lines of 64 characters (RFC 7468 §2); Node.js takes no longer ones.
fn pem(certificate: &[u8]) -> String {
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for (index, character) in BASE64_STANDARD.encode(certificate).chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem + "\n-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::pem;

    #[test]
    fn a_certificate_is_cut_into_lines() {
        assert_eq!(
            pem(&[0; 49]),
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\nAA==\n-----END CERTIFICATE-----\n",
                "A".repeat(64)
            )
        );
    }
}

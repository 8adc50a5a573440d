//! The subject of an X.509 certificate: who a client certificate says it is (RFC 5280, sections 4.1 and 4.1.2.4).
//!
//! Does not: verify anything; the certificate's chain is verified before its subject is believed.

/// Object identifier 2.5.4.3, `commonName`.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// Object identifier 2.5.4.10, `organizationName`.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;

/// The names in a subject, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The last common name, as Go's `pkix.Name` keeps it.
    pub(super) common_name: String,
    /// Every organization.
    pub(super) organizations: Vec<String>,
}

/// Reads the subject of a DER certificate; `None` when the bytes are no certificate.
pub(super) fn subject(certificate: &[u8]) -> Option<Subject> {
    let (body, _) = element(certificate, SEQUENCE)?;
    let (mut fields, _) = element(body, SEQUENCE)?;
    if let Some((_, rest)) = element(fields, VERSION) {
        fields = rest;
    }
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        (_, _, fields) = first(fields)?;
    }
    let (mut names, _) = element(fields, SEQUENCE)?;
    let mut subject = Subject::default();
    while !names.is_empty() {
        let (mut set, rest) = element(names, SET)?;
        names = rest;
        while !set.is_empty() {
            let (pair, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = element(pair, OBJECT_IDENTIFIER)?;
            let (tag, text, _) = first(value)?;
            match kind {
                COMMON_NAME => subject.common_name = string(tag, text)?,
                ORGANIZATION => subject.organizations.push(string(tag, text)?),
                _ => {}
            }
        }
    }
    Some(subject)
}

/// UTF8String, PrintableString and IA5String; other kinds have not been issued for this purpose in decades.
fn string(tag: u8, bytes: &[u8]) -> Option<String> {
    matches!(tag, 0x0c | 0x13 | 0x16).then(|| std::str::from_utf8(bytes).ok().map(str::to_owned))?
}

/// The content of an element with this tag, and what follows it.
fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = first(input)?;
    (found == tag).then_some((content, rest))
}

/// The tag and content of the first element, and what follows it.
fn first(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, input) = input.split_first()?;
    let (&first, mut input) = input.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (bytes, rest) = input.split_at_checked(count)?;
        length = bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
        input = rest;
    }
    let (content, rest) = input.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .to_vec()
    }

    #[test]
    fn user_and_groups_are_common_name_and_organizations() {
        let der = certificate(&[
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "admin ü"),
        ]);
        assert_eq!(
            subject(&der),
            Some(Subject {
                common_name: "admin ü".to_owned(),
                organizations: vec!["system:masters".to_owned()]
            })
        );
        assert_eq!(subject(&certificate(&[])), Some(Subject::default()));
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_certificate_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            subject(&bytes);
        }

        #[test]
        fn a_certificate_cut_short_or_changed_does_not_panic(cut in 0_usize..500, at in 0_usize..500, to in any::<u8>()) {
            let mut der = certificate(&[(DnType::CommonName, "a")]);
            if let Some(byte) = der.get_mut(at) {
                *byte = to;
            }
            der.truncate(cut);
            subject(&der);
        }
    }
}

//! The published vectors, and what is no key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

/// RFC 7515, appendix A.2 and A.3: one payload under two algorithms.
const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RSA_KEY: &str = r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB""#;
const RSA_SIGNATURE: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const EC_KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;
const EC_SIGNATURE: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
/// RFC 8037, appendix A.2 and A.4.
const ED_KEY: &str =
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;
const ED_SIGNED: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
const ED_SIGNATURE: &str =
    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

/// A set of keys, each with more members.
fn keys(listed: &[(&str, &str)]) -> Keys {
    let listed: Vec<_> = listed.iter().map(|(key, more)| format!("{key}{more}}}")).collect();
    Keys::parse(format!(r#"{{"keys":[{}]}}"#, listed.join(",")).as_bytes()).expect("a key set")
}

fn vectors() -> [(Algorithm, &'static str, String, &'static str); 3] {
    [
        (Algorithm::Rs256, RSA_KEY, format!("eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}"), RSA_SIGNATURE),
        (Algorithm::Es256, EC_KEY, format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}"), EC_SIGNATURE),
        (Algorithm::EdDsa, ED_KEY, ED_SIGNED.to_owned(), ED_SIGNATURE),
    ]
}

#[test]
fn the_published_signatures_hold_and_no_other() {
    for (algorithm, key, signed, signature) in vectors() {
        let keys = keys(&[(key, "")]);
        let key = keys.find(None, algorithm).expect("the key");
        let mut signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
        assert!(key.verifies(algorithm, signed.as_bytes(), &signature), "{algorithm:?}");
        assert!(!key.verifies(algorithm, format!("{signed}A").as_bytes(), &signature));
        assert!(!key.verifies(algorithm, signed.as_bytes(), &signature[1..]));
        assert!(!key.verifies(algorithm, signed.as_bytes(), b""));
        signature[0] ^= 1;
        assert!(!key.verifies(algorithm, signed.as_bytes(), &signature));
    }
}

#[test]
fn a_key_is_for_its_own_algorithms_alone() {
    let keys = keys(&[(RSA_KEY, ""), (EC_KEY, ""), (ED_KEY, "")]);
    for algorithm in [Algorithm::Es384, Algorithm::Ps512, Algorithm::Rs384] {
        let family = matches!(algorithm, Algorithm::Ps512 | Algorithm::Rs384);
        assert_eq!(keys.find(None, algorithm).is_some(), family, "{algorithm:?}");
    }
    let (_, key, signed, signature) = &vectors()[0];
    let only = self::keys(&[(key, r#","alg":"PS256""#)]);
    assert!(only.find(None, Algorithm::Rs256).is_none(), "the issuer says PS256");
    let key = only.find(None, Algorithm::Ps256).expect("the key");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    assert!(!key.verifies(Algorithm::Ps256, signed.as_bytes(), &signature));
    assert!(!key.verifies(Algorithm::Es256, signed.as_bytes(), &signature));
}

#[test]
fn what_does_not_sign_is_no_key() {
    let with = |key: &str, more: &str| keys(&[(key, more)]).keys.len();
    for more in ["", r#","use":"sig""#, r#","key_ops":["verify"]"#, r#","x5c":["?"],"new":1"#] {
        assert_eq!(with(EC_KEY, more), 1, "{more}");
    }
    for more in
        [r#","use":"enc""#, r#","key_ops":["encrypt"]"#, r#","alg":"ECDH-ES""#, r#","kid":7"#]
    {
        assert_eq!(with(EC_KEY, more), 0, "{more}");
    }
    for key in [
        r#"{"kty":"oct","k":"c2VjcmV0""#,
        r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA""#,
        r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA""#,
        r#"{"kty":"EC","crv":"P-256","x":"AA""#,
        r#"{"kty":"RSA","n":"AQAB""#,
        r#"{"kty":"RSA","n":"?","e":"AQAB""#,
        r#"{"kid":"a""#,
    ] {
        assert_eq!(with(key, ""), 0, "{key}");
    }
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":1}"#] {
        assert!(Keys::parse(text.as_bytes()).is_none(), "{text}");
    }
    let many: Vec<_> = (0..=MAX_KEYS).map(|_| (ED_KEY, "")).collect();
    assert_eq!(keys(&many).keys.len(), MAX_KEYS);
}

#[test]
fn a_token_names_its_key_or_leaves_no_choice() {
    let two = keys(&[(RSA_KEY, r#","kid":"a""#), (EC_KEY, r#","kid":"b""#)]);
    assert!(two.find(Some("a"), Algorithm::Rs256).is_some());
    assert!(two.find(Some("b"), Algorithm::Rs256).is_none(), "b is no RSA key");
    assert!(two.find(Some("c"), Algorithm::Rs256).is_none());
    assert!(two.find(Some(""), Algorithm::Rs256).is_none());
    assert!(two.find(None, Algorithm::Rs256).is_some(), "the only one that suits");
    let alike = keys(&[(ED_KEY, r#","kid":"a""#), (ED_KEY, r#","kid":"b""#)]);
    assert!(alike.find(None, Algorithm::EdDsa).is_none());
    assert!(keys(&[(ED_KEY, "")]).find(Some("a"), Algorithm::EdDsa).is_none());
}

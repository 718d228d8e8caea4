//! What it costs to reduce a call to its request hash, beside reading the same bytes into a
//! `serde_json::Value` and hashing them with SHA-256 alone.
//!
//! The ids are `fingerprint/step/bytes of the body`.

mod support;

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use onceward::claim::{
    Call, Document, Fingerprint, Key, KeyFormat, Value, canonical, request_hash,
};
use sha2::{Digest, Sha256};

/// Bytes of the bodies.
const SIZES: [usize; 3] = [200, 2 * 1024, 32 * 1024];

/// A call with as many orders among its arguments as make it `size` bytes long.
fn body(size: usize) -> String {
    let mut body = String::from(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"charge","arguments":{"orders":["#,
    );
    const END: &str = r#"],"note":""}}}"#;
    for number in 0.. {
        let before = body.len();
        let comma = if number == 0 { "" } else { "," };
        write!(
            body,
            r#"{comma}{{"id":"ord_{number:08}","amount":1{number}.5,"to":"Zo\u00eb \"Z\"","tags":["a",true,null]}}"#
        )
        .expect("memory");
        if body.len() + END.len() > size {
            body.truncate(before);
            break;
        }
    }
    let note = "x".repeat(size - body.len() - END.len());
    body + &END.replace(r#""""#, &format!(r#""{note}""#))
}

/// The parts of a call that its hash is made of.
fn call<'d, 'a>(root: Value<'d, 'a>) -> Option<Call<'d, 'a>> {
    let params = root.get("params")?;
    Some(Call { method: "tools/call", tool: "charge", id: root.get("id")?, params })
}

fn all(c: &mut Criterion) {
    let key = Key::parse(b"order-4711-charge", KeyFormat::Any).expect("a key");
    for size in SIZES {
        let text = body(size);
        let bytes = text.as_bytes();
        assert_eq!(bytes.len(), size);
        let mut measure = |step: &str, work: &mut dyn FnMut()| {
            support::measure(c, &format!("fingerprint/{step}/{size}"), |b| b.iter(&mut *work));
        };
        let document = Document::parse(bytes).expect("a body");
        let called = call(document.root()).expect("a call");
        measure("parse", &mut || drop(black_box(Document::parse(black_box(bytes)))));
        measure("canonical", &mut || drop(black_box(canonical(black_box(called.params)))));
        measure("request_hash", &mut || {
            black_box(request_hash(Fingerprint::Request, &key, black_box(&called)));
        });
        measure("whole", &mut || {
            let document = Document::parse(black_box(bytes)).expect("a body");
            let called = call(document.root()).expect("a call");
            black_box(request_hash(Fingerprint::Request, &key, &called));
        });
        measure("serde_value", &mut || {
            drop(black_box(serde_json::from_slice::<serde_json::Value>(black_box(bytes))));
        });
        measure("sha256", &mut || {
            black_box(Sha256::digest(black_box(bytes)));
        });
    }
}

criterion_group! { name = benches; config = support::criterion(); targets = all }
criterion_main!(benches);

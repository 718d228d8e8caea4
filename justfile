# Every habit is a recipe; CI and the README call the same scripts.

# What there is.
default:
    @just --list

# Everything that CI runs.
ci:
    ./.ci/run

# All tests, with the setup that they need.
test:
    ./scripts/test

# The Rust tests alone; arguments choose some of them, as in `just unit json::`.
unit *filter:
    cargo nextest run --workspace {{ filter }}

# Format and lints.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy --no-default-features --all-targets -- -D warnings

# The ledger under every interleaving.
loom:
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p loom-tests --release

# The store's machines in every order of their messages and accesses to shared memory.
model:
    cargo test --profile model --no-default-features --test model -- --include-ignored --nocapture --test-threads 1

# Recorded histories of the running store against the sequential model; so many of each kind.
linearizability histories="2000":
    ONCEWARD_HISTORIES={{ histories }} cargo test --test linearizability -- --nocapture --test-threads 1

# Rules broken on purpose, and what catches each; arguments choose some, as in `just mutate index`.
mutate *words:
    ./scripts/mutate {{ words }}

# What cargo-mutants (`cargo install cargo-mutants`) breaks in the machines and the ledger, in a copy
# of the tree, and what the tests of the machines miss; into target/mutants.
mutants *arguments:
    cargo mutants --output target/mutants --no-default-features -C=--lib -C=--test=store_model --timeout 40 \
        --file 'src/claim/**' --file 'src/ledger/**' --exclude-re 'impl fmt::(Debug|Display)' {{ arguments }}

# The JSON Schemas of the documents, from the types that read them, into schemas/.
schemas:
    cargo run --example schemas

# The documentation of the crate.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Every outcome, shown on a small payments server.
demo *arguments:
    cargo run --release -- demo {{ arguments }}

# The whole gateway beside a pass-through, nginx and a peer, into docs/BENCHMARKS.md.
bench *arguments:
    ./scripts/bench {{ arguments }}

# The store against its bars, into target/bench/store.md; on a machine that does nothing else.
bench-store *arguments:
    ./scripts/bench-store {{ arguments }}

# What a fingerprint costs.
bench-fingerprint *arguments:
    cargo bench --bench fingerprint -- {{ arguments }}

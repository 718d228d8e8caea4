//! The reference pages in docs/ say what the code does: names, defaults, bounds and examples are
//! read out of the pages and held against the program.

#![cfg(feature = "gateway")]

mod configuration;
mod errors;
mod guarantees;
mod markdown;
mod policy;

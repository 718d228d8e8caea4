//! Writes the JSON Schema of every kind of document into a folder, by default `schemas`.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "schemas".to_owned()));
    std::fs::create_dir_all(&folder)?;
    for (name, schema) in onceward::policy::schemas() {
        std::fs::write(folder.join(name), format!("{schema:#}\n"))?;
    }
    Ok(())
}

//! What an agent on a host needs beside the core: models' own chat templates,
//! tools declared in files, inputs. Knows no terminal and no model.

pub mod jinja;

//! `katydid quantize` as its user meets it.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use katydid_core::gguf::emit::Emit;
use katydid_core::gguf::{Gguf, Value};
use katydid_core::quant::Format;
use katydid_core::quant::mix::Mix;

/// A folder that goes away with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("katydid-quantize-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// SplitMix64, made into numbers with mean 0.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

const WIDTH: u64 = 256;
const VOCAB: u64 = 64;

/// Tensors of a llama of two layers: names and dimensions.
fn tensors() -> Vec<(String, Vec<u64>)> {
    let mut all = vec![("token_embd.weight".to_owned(), vec![WIDTH, VOCAB])];
    for l in 0..2 {
        let matrices = [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH, 128),
            ("attn_v", WIDTH, 128),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", WIDTH, 512),
            ("ffn_up", WIDTH, 512),
            ("ffn_down", 512, WIDTH),
        ];
        all.extend(matrices.map(|(name, cols, rows)| (format!("blk.{l}.{name}.weight"), vec![cols, rows])));
        all.extend(["attn_norm", "ffn_norm"].map(|name| (format!("blk.{l}.{name}.weight"), vec![WIDTH])));
    }
    all.push(("output_norm.weight".to_owned(), vec![WIDTH]));
    all.push(("output.weight".to_owned(), vec![WIDTH, VOCAB]));
    all
}

/// The model of `seed`, in F32; `change` may spoil a tensor's weights.
fn model(seed: u64, change: impl Fn(&str, &mut [f32])) -> Vec<u8> {
    let mut bytes = Vec::new();
    let sink = |piece: &[u8]| -> Result<(), Infallible> {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let keys = [
        ("general.architecture", Value::Str("llama")),
        ("general.name", Value::Str("test")),
        ("general.file_type", Value::U32(0)),
        ("llama.block_count", Value::U32(2)),
        ("llama.context_length", Value::U32(64)),
        ("llama.embedding_length", Value::U32(WIDTH as u32)),
        ("llama.feed_forward_length", Value::U32(512)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.vocab_size", Value::U32(VOCAB as u32)),
    ];
    let tensors = tensors();
    let mut out = Emit::new(sink, 3, keys.len() as u64 + 1, tensors.len() as u64).unwrap();
    for (key, value) in keys {
        out.put(key, value).unwrap();
    }
    let words: Vec<String> = (0..VOCAB).map(|i| format!("w{i}")).collect();
    out.strings("tokenizer.ggml.tokens", words.iter().map(String::as_str)).unwrap();
    let slots: Vec<_> =
        tensors.iter().map(|(name, dims)| out.tensor(name, dims, Format::F32).unwrap()).collect();
    let mut random = Random(seed);
    for ((name, dims), slot) in tensors.iter().zip(slots) {
        let norm = dims.len() == 1;
        let mut weights: Vec<f32> = (0..dims.iter().product())
            .map(|_| if norm { 1.0 + 0.02 * random.next() } else { 0.1 * random.next() })
            .collect();
        change(name, &mut weights);
        let raw: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        out.weights(slot, &raw).unwrap();
    }
    out.finish().unwrap();
    bytes
}

/// An importance matrix in GGUF for `model()`'s matrices.
fn imatrix(of: impl Fn(usize) -> f32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let sink = |piece: &[u8]| -> Result<(), Infallible> {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let matrices: Vec<_> = tensors().into_iter().filter(|(_, dims)| dims.len() == 2).collect();
    let mut out = Emit::new(sink, 3, 3, 2 * matrices.len() as u64).unwrap();
    out.put("general.type", Value::Str("imatrix")).unwrap();
    out.put("imatrix.chunk_count", Value::U32(3)).unwrap();
    out.strings("imatrix.datasets", ["some text"].into_iter()).unwrap();
    let mut slots = Vec::new();
    for (name, dims) in &matrices {
        slots.push(out.tensor(&format!("{name}.in_sum2"), &[dims[0], 1], Format::F32).unwrap());
        slots.push(out.tensor(&format!("{name}.counts"), &[1, 1], Format::F32).unwrap());
    }
    for (pair, (_, dims)) in slots.chunks(2).zip(&matrices) {
        let sums: Vec<u8> = (0..dims[0] as usize).flat_map(|i| of(i).to_le_bytes()).collect();
        out.weights(pair[0], &sums).unwrap();
        out.weights(pair[1], &10f32.to_le_bytes()).unwrap();
    }
    out.finish().unwrap();
    bytes
}

fn katydid(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_katydid")).args(args.iter().map(AsRef::as_ref)).output().unwrap()
}

fn quantize(input: &Path, output: &Path, mix: &str, flags: &[&str]) -> Output {
    let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"quantize", &input, &output, &mix];
    args.extend(flags.iter().map(|f| f as &dyn AsRef<std::ffi::OsStr>));
    katydid(&args)
}

#[track_caller]
fn ok(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout.clone()).unwrap()
}

/// The message of a failure, which is one line.
#[track_caller]
fn fails(out: &Output, code: i32) -> String {
    let text = String::from_utf8(out.stderr.clone()).unwrap();
    assert_eq!(out.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

fn logits(model: &Path, to: &Path) -> Vec<f32> {
    ok(&katydid(&[&"eval", &"logits", &model, &"--tokens", &"1,5,9,33,2,60", &"--out", &to]));
    fs::read(to).unwrap().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn every_type_runs_and_keeps_the_models_answers() {
    let dir = Dir::new("types");
    let (input, rows) = (dir.file("in.gguf", &model(1, |_, _| ())), dir.path("logits"));
    let want = logits(&input, &rows);
    let mut bad = Vec::new();
    for mix in Mix::ALL {
        let out = dir.path("out.gguf");
        ok(&quantize(&input, &out, mix.name, &["--force"]));
        let bytes = fs::read(&out).unwrap();
        let gguf = Gguf::parse(&bytes, bytes.len() as u64).unwrap();
        assert_eq!(gguf.u32("general.file_type").unwrap(), Some(mix.file_type));
        assert_eq!(gguf.u32("general.quantization_version").unwrap(), Some(2));
        assert_eq!(gguf.str("general.name").unwrap(), Some("test"));
        assert_eq!(gguf.array("tokenizer.ggml.tokens").unwrap().unwrap().len(), VOCAB as usize);
        assert_eq!(gguf.tensor("blk.1.ffn_gate.weight").unwrap().format, mix.base);
        assert_eq!(gguf.tensor("blk.1.ffn_norm.weight").unwrap().format, Format::F32);
        let got = logits(&out, &rows);
        let off: f32 = got.iter().zip(&want).map(|(g, w)| (g - w).powi(2)).sum();
        let nmse = off / want.iter().map(|w| w.powi(2)).sum::<f32>();
        let most = match mix.base {
            Format::F32 | Format::F16 | Format::Bf16 => 1e-4,
            Format::Q8_0 => 0.001,
            Format::Q6K => 0.005,
            Format::Q5_0 | Format::Q5_1 | Format::Q5K => 0.02,
            Format::Q3K => 0.3,
            Format::Q2K => 0.7,
            _ => 0.08,
        };
        println!("{:<7} {nmse:.6} of {most}", mix.name);
        if nmse > most {
            bad.push(mix.name);
        }
    }
    assert!(bad.is_empty(), "answers differ too much: {bad:?}");
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let dir = Dir::new("threads");
    let input = dir.file("in.gguf", &model(2, |_, _| ()));
    let matrix = dir.file("imatrix.gguf", &imatrix(|i| 1.0 + i as f32));
    for mix in ["Q4_K_M", "Q2_K", "IQ4_XS", "Q8_0"] {
        let mut first: Option<Vec<u8>> = None;
        for threads in ["1", "2", "5"] {
            let out = dir.path("out.gguf");
            ok(&quantize(
                &input,
                &out,
                mix,
                &["-j", threads, "--force", "--imatrix", matrix.to_str().unwrap()],
            ));
            let bytes = fs::read(&out).unwrap();
            assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{mix} on {threads} threads");
        }
    }
}

#[test]
fn importance_changes_the_file_and_is_named_in_it() {
    let dir = Dir::new("imatrix");
    let input = dir.file("in.gguf", &model(3, |_, _| ()));
    let matrix = dir.file("imatrix.gguf", &imatrix(|i| if i % 7 == 0 { 50.0 } else { 0.5 }));
    let (plain, with) = (dir.path("plain.gguf"), dir.path("with.gguf"));
    ok(&quantize(&input, &plain, "Q4_K_S", &[]));
    ok(&quantize(&input, &with, "Q4_K_S", &["--imatrix", matrix.to_str().unwrap()]));
    let bytes = fs::read(&with).unwrap();
    let gguf = Gguf::parse(&bytes, bytes.len() as u64).unwrap();
    assert_eq!(gguf.str("quantize.imatrix.dataset").unwrap(), Some("some text"));
    assert_eq!(gguf.u32("quantize.imatrix.chunks_count").unwrap(), Some(3));
    assert_eq!(gguf.u32("quantize.imatrix.entries_count").unwrap(), Some(16));
    let data = |file: &[u8]| {
        let gguf = Gguf::parse(file, file.len() as u64).unwrap();
        gguf.tensor("blk.0.attn_q.weight").unwrap().bind(file).unwrap().data().to_vec()
    };
    assert_ne!(data(&bytes), data(&fs::read(&plain).unwrap()));
    // One of another model, one that is no such file, one cut short.
    let wide = imatrix(|_| f32::NAN);
    for (bytes, says) in
        [(&wide[..], "not finite"), (&model(3, |_, _| ())[..], "imatrix"), (&wide[..900], "")]
    {
        let bad = dir.file("bad.gguf", bytes);
        let out = dir.path("none.gguf");
        let text = fails(&quantize(&input, &out, "Q4_K_S", &["--imatrix", bad.to_str().unwrap()]), 1);
        assert!(text.contains(says) && !out.exists(), "{text}");
    }
}

#[test]
fn bad_arguments_are_refused_in_words() {
    let dir = Dir::new("arguments");
    let input = dir.file("in.gguf", &model(4, |_, _| ()));
    let out = dir.path("out.gguf");
    let text = fails(&quantize(&input, &out, "Q4_9", &[]), 2);
    assert!(Mix::ALL.iter().all(|m| text.contains(m.name)), "{text}");
    let text = fails(&quantize(&dir.path("none.gguf"), &out, "Q4_0", &[]), 1);
    assert!(text.contains("no such file"), "{text}");
    let text = fails(&quantize(&input, &input, "Q4_0", &["--force"]), 1);
    assert!(text.contains("is the file to read"), "{text}");
    let link = dir.path("link.gguf");
    fs::hard_link(&input, &link).unwrap();
    let text = fails(&quantize(&input, &link, "Q4_0", &["--force"]), 1);
    assert!(text.contains("is the file to read"), "{text}");
    let there = dir.file("there.gguf", b"mine");
    let text = fails(&quantize(&input, &there, "Q4_0", &[]), 1);
    assert!(text.contains("--force"), "{text}");
    assert_eq!(fs::read(&there).unwrap(), b"mine");
    let text = fails(&quantize(&input, Path::new("/dev/full"), "Q4_0", &["--force"]), 1);
    assert!(text.contains("device"), "{text}");
    let text = fails(&quantize(&input, &dir.path("no/such/folder.gguf"), "Q4_0", &[]), 1);
    assert!(text.contains("cannot write"), "{text}");
    let text = fails(&quantize(&input, &dir.path("m-00001-of-00002.gguf"), "Q4_0", &[]), 1);
    assert!(text.contains("split"), "{text}");
    assert_eq!(dir.names(), ["in.gguf", "link.gguf", "there.gguf"]);
}

#[test]
fn a_dry_run_writes_nothing_and_knows_the_size() {
    let dir = Dir::new("dry");
    let input = dir.file("in.gguf", &model(5, |_, _| ()));
    let out = dir.path("out.gguf");
    for mix in Mix::ALL {
        let planned = ok(&quantize(&input, &out, mix.name, &["--dry-run", "--json"]));
        assert!(!out.exists());
        ok(&quantize(&input, &out, mix.name, &[]));
        let size = fs::metadata(&out).unwrap().len();
        assert!(planned.contains(&format!("\"written\": {size}")), "{}: {size}", mix.name);
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn weights_that_are_no_numbers_are_found() {
    let dir = Dir::new("nan");
    for (value, says) in [(f32::NAN, "is NaN"), (f32::INFINITY, "is inf"), (1e30, "too large for Q4_K")] {
        let spoil = |name: &str, w: &mut [f32]| {
            if name == "blk.1.ffn_up.weight" {
                w[300 * 256 + 17] = value;
            }
        };
        let input = dir.file("in.gguf", &model(6, spoil));
        let text = fails(&quantize(&input, &dir.path("out.gguf"), "Q4_K_M", &[]), 1);
        let place = "tensor 'blk.1.ffn_up.weight': row 300, column 17";
        assert!(text.contains(place) && text.contains(says), "{text}");
        assert_eq!(dir.names(), ["in.gguf"]);
    }
}

#[test]
fn what_is_quantised_is_not_quantised_again_unasked() {
    let dir = Dir::new("again");
    let input = dir.file("in.gguf", &model(7, |_, _| ()));
    let (small, smaller) = (dir.path("small.gguf"), dir.path("smaller.gguf"));
    ok(&quantize(&input, &small, "Q5_K_S", &[]));
    let text = fails(&quantize(&small, &smaller, "Q4_0", &[]), 1);
    assert!(text.contains("--allow-requantize"), "{text}");
    ok(&quantize(&small, &smaller, "Q4_0", &["--allow-requantize"]));
    // To what it is already, every byte stays.
    let same = dir.path("same.gguf");
    ok(&quantize(&small, &same, "Q5_K_S", &[]));
    assert!(fs::read(&same).unwrap() == fs::read(&small).unwrap());
    // Eight bits are good enough to begin with, and it says what it thinks.
    ok(&quantize(&input, &small, "Q8_0", &["--force"]));
    let out = quantize(&small, &smaller, "Q4_K_M", &["--force"]);
    ok(&out);
    assert!(String::from_utf8_lossy(&out.stderr).contains("quantised already"));
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let dir = Dir::new("full");
    let input = dir.file("in.gguf", &model(8, |_, _| ()));
    let out = dir.path("out.gguf");
    // A limit on file sizes, which every system has, in blocks of 512 bytes.
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" quantize \"$1\" \"$2\" Q8_0";
    let limited =
        Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_katydid")]).args([&input, &out]).output();
    let text = fails(&limited.unwrap(), 1);
    assert!(text.contains("no room") || text.contains("File too large"), "{text}");
    assert_eq!(dir.names(), ["in.gguf"]);
    // A disk that is full, where this user may make one.
    let script = "mkdir -p \"$2\" && mount -t tmpfs -o size=256k none \"$2\" || exit 77
        \"$0\" quantize \"$1\" \"$2/out.gguf\" Q8_0; code=$?; ls -A \"$2\"; exit $code";
    let full = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_katydid")])
        .args([&input, &dir.path("disk")])
        .output();
    match full {
        Ok(out) if matches!(out.status.code(), Some(0 | 1)) && !out.stderr.starts_with(b"unshare") => {
            let text = fails(&out, 1);
            assert!(text.contains("no room for the"), "{text}");
            assert!(out.stdout.is_empty(), "left: {}", String::from_utf8_lossy(&out.stdout));
        }
        _ => println!("skipped: this user may not mount a small disk"),
    }
}

#[test]
fn split_models_become_one_file() {
    let dir = Dir::new("split");
    let whole = dir.file("whole.gguf", &model(9, |_, _| ()));
    let bytes = fs::read(&whole).unwrap();
    let gguf = Gguf::parse(&bytes, bytes.len() as u64).unwrap();
    let all: Vec<_> = gguf.tensors().collect();
    let (head, tail) = all.split_at(7);
    for (no, tensors) in [(0u32, head), (1, tail)] {
        let mut part = Vec::new();
        let sink = |piece: &[u8]| -> Result<(), Infallible> {
            part.extend_from_slice(piece);
            Ok(())
        };
        let meta: Vec<_> = gguf.entries().filter(|_| no == 0).collect();
        let mut out = Emit::new(sink, 3, meta.len() as u64 + 3, tensors.len() as u64).unwrap();
        for (key, value) in meta {
            out.put(key, value).unwrap();
        }
        out.put("split.no", Value::U32(no)).unwrap();
        out.put("split.count", Value::U32(2)).unwrap();
        out.put("split.tensors.count", Value::U32(all.len() as u32)).unwrap();
        let slots: Vec<_> = tensors
            .iter()
            .map(|t| out.tensor(t.name, &t.dims[..t.n_dims as usize], t.format).unwrap())
            .collect();
        for (t, slot) in tensors.iter().zip(slots) {
            out.weights(slot, t.bind(&bytes).unwrap().data()).unwrap();
        }
        out.finish().unwrap();
        dir.file(&format!("m-0000{}-of-00002.gguf", no + 1), &part);
    }
    let (one, other) = (dir.path("one.gguf"), dir.path("other.gguf"));
    ok(&quantize(&whole, &one, "Q4_K_M", &[]));
    ok(&quantize(&dir.path("m-00002-of-00002.gguf"), &other, "Q4_K_M", &[]));
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
}

#[test]
fn the_table_names_every_format() {
    let dir = Dir::new("table");
    let input = dir.file("in.gguf", &model(10, |_, _| ()));
    let text = ok(&quantize(&input, &dir.path("out.gguf"), "q4_k", &["--verbose"]));
    for part in ["Q4_K", "Q6_K", "F32", "blk.0.attn_q.weight", "bits a weight", "of memory"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(dir.names(), ["in.gguf", "out.gguf"]);
}

//! The same bytes of logits, however the machine is used.

use katydid_core::kernels::{Isa, Kernels};
use katydid_core::quant::Format;
use katydid_tests::tiny::{Shape, Tiny};

use super::{folder, good, katydid};

#[test]
fn of_instruction_sets_threads_and_batches() {
    let caps = katydid_linux::cpu_caps();
    let isas: Vec<_> = Isa::ALL.into_iter().filter(|&i| Kernels::of(i, &caps).is_some()).collect();
    let tokens = (0..70).map(|i| (i * 37 % 300 + 3).to_string()).collect::<Vec<_>>().join(",");
    for format in [Format::F32, Format::Q8_0, Format::Q4_0, Format::Q4K, Format::Q6K, Format::Iq4Xs] {
        let name = format!("bits-{}.gguf", format.name());
        let shape = Shape { format, embd: 256, head_dim: 64, ffn: 256, ..Shape::SMALL };
        let model = Tiny::new(&shape).save(folder(), &name);
        let logits = |isa: Option<&str>, args: &[&str]| {
            let out = folder().join(format!("{name}.f32"));
            let mut command = katydid(["eval", "logits", model.to_str().unwrap(), "--tokens", &tokens]);
            command.arg("--out").arg(&out).args(args);
            isa.map(|isa| command.env("KATYDID_ISA", isa));
            assert_eq!(good(&mut command), "");
            std::fs::read(out).unwrap()
        };
        let want = logits(None, &[]);
        assert_eq!(want.len(), 70 * 320 * 4);
        for isa in &isas {
            assert!(logits(Some(isa.name()), &[]) == want, "{format:?} {isa:?}");
        }
        for args in
            [["-j", "1"], ["-j", "2"], ["-j", "3"], ["-b", "1"], ["-b", "7"], ["-b", "32"], ["-c", "99"]]
        {
            assert!(logits(None, &args) == want, "{format:?} {args:?}");
        }
    }
}

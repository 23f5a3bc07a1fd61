//! x
#[test] fn x() { let e = std::env::current_exe().unwrap(); println!("{}", e.display()); std::process::Command::new("find").args(["/tmp/target-scratch/debug", "-name", "libcupool_sim*so"]).status().unwrap(); }

# For nixpkgs: pkgs.callPackage ./package.nix { }. Not built by our tests, which have no Nix; it is parsed by
# scripts/lint-recipes.sh. `src` is the clone that this file lies in; a release names its archive instead.
{
  lib,
  rustPlatform,
  installShellFiles,
  cmake,
  perl,
}:

rustPlatform.buildRustPackage {
  pname = "fobs";
  version = "0.2.0";
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;

  cargoBuildFlags = [
    "-p"
    "fobs-cli"
  ];
  # The tests need network namespaces and sshd, which the sandbox has not.
  doCheck = false;

  nativeBuildInputs = [
    installShellFiles
    cmake
    perl
  ];

  postInstall = ''
    $out/bin/fobs man --out man
    installManPage man/*.1
    installShellCompletion --cmd fobs \
      --bash <($out/bin/fobs completions bash) \
      --zsh <($out/bin/fobs completions zsh) \
      --fish <($out/bin/fobs completions fish)
    install -Dm644 packaging/systemd/fobs.* -t $out/lib/systemd/system
    install -Dm644 packaging/systemd/fobs-jobs-system.service $out/lib/systemd/system/fobs-jobs.service
    install -Dm644 packaging/systemd/fobs-jobs.service -t $out/lib/systemd/user
    substituteInPlace $out/lib/systemd/user/fobs-jobs.service --replace-fail /usr/local/bin/fobs $out/bin/fobs
    substituteInPlace $out/lib/systemd/system/fobs-jobs.service --replace-fail /usr/local/bin/fobs $out/bin/fobs
    substituteInPlace $out/lib/systemd/system/fobs.service --replace-fail /usr/local/bin/fobs $out/bin/fobs
  '';

  meta = {
    description = "Fast, encrypted, verified copies over long fat networks";
    license = with lib.licenses; [
      asl20
      mit
    ];
    mainProgram = "fobs";
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
  };
}

import { execFileSync } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { describe } from './artefact.mjs'

/**
 * `node config/debian.mjs [--arch x64|arm64] [--binary FILE] [--out FOLDER]`: a Debian package of the executable that config/binary.mjs made:
 * units, options, an example site, manual page and completion. The same executable and commit give the same bytes.
 */
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({
  options: {
    arch: { type: 'string', default: arch() },
    binary: { type: 'string' },
    out: { type: 'string', default: 'dist-binary' }
  }
})
const debianArch = { x64: 'amd64', arm64: 'arm64' }[values.arch]
const binary = resolve(values.binary ?? join(root, 'dist-binary', `sluice-linux-${values.arch}`))
const { version, description, license } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const bill = await readFile(`${binary}.sbom.cdx.json`)
const work = await mkdtemp(join(tmpdir(), 'sluice-debian-'))
const at = (path) => join(work, path)

async function put(path, content, mode = 0o644) {
  await mkdir(dirname(at(path)), { recursive: true })
  await writeFile(at(path), content)
  await chmod(at(path), mode)
}

const text = async (path) => await readFile(join(root, path), 'utf8')
const zipped = (content) => gzipSync(content, { level: 9 })

/** A shell script of the built program. */
function completion(shell) {
  return execFileSync(process.execPath, [join(root, 'dist', 'main.js'), 'completion', shell])
}

/** The unit for the executable, its user and its cache, in place of a clone in /opt. */
async function unit() {
  const found = await text('config/systemd/sluice.service')
  return replaced(found, [
    [/^# Sluice as a service.*$/m, '# Sluice as a service of systemd.'],
    [/^Documentation=.*$/m, 'Documentation=man:sluice(1)'],
    [/^ExecStart=.*$/m, 'ExecStart=/usr/bin/sluice start --config /etc/sluice/sluice.yaml'],
    [/^DynamicUser=yes$/m, 'User=sluice\nGroup=sluice\nCacheDirectory=sluice\nCacheDirectoryMode=0700']
  ])
}

function replaced(found, changes) {
  return changes.reduce((before, [pattern, now]) => {
    if (!pattern.test(before)) throw new Error(`${pattern} is not in the unit`)
    return before.replace(pattern, now)
  }, found)
}

const copyright = (year) => `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sluice

Files: *
Copyright: ${year} the authors of Sluice
License: ${license}
 ${license === 'UNLICENSED' ? 'All rights reserved: the owner has not chosen a licence yet.' : 'By its identifier in the list of SPDX.'}

Files: usr/bin/sluice
Copyright: 2009-${year} Node.js contributors, and the authors of the packages in sbom.cdx.json
License: Expat and others
 The executable contains Node.js, whose licence and the licences of what it bundles are at
 https://github.com/nodejs/node/blob/main/LICENSE.
`
const OVERRIDES = `# A single executable: Node.js brings its own copies of these libraries, which are not built to be replaced.
sluice: embedded-library
sluice: unstripped-binary-or-object [usr/bin/sluice]
# The releases of Node.js are no position-independent executables.
sluice: hardening-no-pie [usr/bin/sluice]
# The project has no public address.
sluice: bogus-mail-host *
sluice: bogus-mail-host-in-debian-changelog *
`

async function lay() {
  const date = execFileSync('git', ['-C', root, 'log', '-1', '--format=%cD'], { encoding: 'utf8' }).trim()
  await mkdir(at('usr/bin'), { recursive: true })
  await cp(binary, at('usr/bin/sluice'))
  await put('usr/lib/systemd/system/sluice.service', await unit())
  await put('usr/lib/systemd/system/sluice.socket', await text('config/systemd/sluice.socket'))
  await put('etc/sluice/sluice.yaml', await text('config/service.yaml'))
  await put('etc/sluice/sites.yaml', await text('config/sites.yaml'))
  await put('usr/share/man/man1/sluice.1.gz', zipped(await text('docs/reference/sluice.1')))
  await put('usr/share/bash-completion/completions/sluice', completion('bash'))
  await put('usr/share/zsh/vendor-completions/_sluice', completion('zsh'))
  await put('usr/share/fish/vendor_completions.d/sluice.fish', completion('fish'))
  await put('usr/share/doc/sluice/copyright', copyright(new Date(date).getUTCFullYear()))
  const entry = `sluice (${version}) stable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n -- The authors of Sluice <sluice@localhost>  ${date}\n`
  await put('usr/share/doc/sluice/changelog.gz', zipped(entry))
  await put('usr/share/doc/sluice/sbom.cdx.json', bill)
  await put('usr/share/lintian/overrides/sluice', OVERRIDES)
  await put('DEBIAN/conffiles', '/etc/sluice/sluice.yaml\n/etc/sluice/sites.yaml\n')
  for (const script of ['postinst', 'prerm', 'postrm'])
    await put(`DEBIAN/${script}`, await text(`config/debian/${script}`), 0o755)
  await put('DEBIAN/control', control(await sizeOf()))
}

/** Size of the installed files in KiB. */
async function sizeOf() {
  return Number(execFileSync('du', ['-sk', '--exclude=DEBIAN', work], { encoding: 'utf8' }).split('\t')[0])
}

function control(size) {
  const lines = [
    'Package: sluice',
    `Version: ${version}`,
    `Architecture: ${debianArch}`,
    'Maintainer: The authors of Sluice <sluice@localhost>',
    'Section: net',
    'Priority: optional',
    `Installed-Size: ${size}`,
    'Depends: adduser, init-system-helpers (>= 1.54~), libatomic1, libc6 (>= 2.28), libgcc-s1, libstdc++6',
    'Description: reverse proxy and API gateway with traffic policies',
    ` ${description}`
  ]
  return `${lines.join('\n')}\n`
}

try {
  await lay()
  const out = resolve(values.out, `sluice_${version}_${debianArch}.deb`)
  await mkdir(dirname(out), { recursive: true })
  const epoch = execFileSync('git', ['-C', root, 'log', '-1', '--format=%ct'], { encoding: 'utf8' }).trim()
  // With several threads, the pieces that are compressed depend on the machine.
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '--threads-max=1', '--build', work, out], {
    env: { ...process.env, SOURCE_DATE_EPOCH: epoch },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  await describe(out, bill)
  process.stdout.write(`${out}\n`)
} finally {
  await rm(work, { recursive: true, force: true })
}

import { execFileSync } from 'node:child_process'
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

/**
 * `node config/image.mjs --out FOLDER [--binary FILE]`: the root of the image below FOLDER, from the executable of config/binary.mjs and libraries
 * of Debian: no shell, no package manager. It needs Debian with lists of packages (`apt-get update`) and runs as root, because it gives files
 * an owner and runs the executable inside once: what that unpacks is part of the image, whose root is read-only later.
 */

/** Packages with what the executable reads: libraries, certificates of authorities, time zones. */
const PACKAGES = ['libatomic1', 'libc6', 'libgcc-s1', 'libstdc++6', 'ca-certificates', 'tzdata']
/** Files of these packages that nothing reads. */
const UNUSED = ['usr/share/man', 'usr/share/lintian', 'usr/share/bug', 'usr/share/locale', 'usr/sbin', 'sbin']
/** User of the process, as in images without a shell. */
const USER = 65_532

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({ options: { out: { type: 'string' }, binary: { type: 'string' } } })
if (values.out === undefined) stop('--out FOLDER is missing')
if (process.getuid?.() !== 0) stop('only root makes an image: it has files of several users')
const binary = resolve(values.binary ?? join(root, 'dist-binary', `sluice-linux-${arch()}`))
const out = resolve(values.out)
const at = (...path) => join(out, ...path)

await mkdir(out, { recursive: true })
if ((await readdir(out)).length > 0) stop(`${out} is not empty`)
const packages = await unpackPackages()
await layFiles()
await unpackExecutable()
process.stdout.write(`${out}\n`)

/** Returns the packages as components of a bill of materials (CycloneDX). */
async function unpackPackages() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-image-'))
  const components = []
  try {
    execFileSync('apt-get', ['download', ...PACKAGES], { cwd: folder, stdio: ['ignore', 'ignore', 'ignore'] })
    for (const file of (await readdir(folder)).sort()) {
      execFileSync('dpkg-deb', ['--extract', join(folder, file), out])
      const words = ['--show', '--showformat=${Package} ${Version} ${Architecture}', join(folder, file)]
      const [name, version, machine] = execFileSync('dpkg-deb', words, { encoding: 'utf8' }).split(' ')
      const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${machine}`
      components.push({ 'bom-ref': purl, type: 'library', name, version, purl })
    }
  } catch (error) {
    stop(`packages of Debian cannot be fetched: ${error.message.split('\n')[0]} (apt-get update comes before)`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  const encodings = (await readdir(at('usr/lib'))).map((name) => join('usr/lib', name, 'gconv'))
  for (const path of [...UNUSED, ...encodings]) await rm(at(path), { recursive: true, force: true })
  return components
}

async function layFiles() {
  const folder = at('usr/share/ca-certificates/mozilla')
  const certificates = (await readdir(folder)).sort().map((name) => readFile(join(folder, name), 'utf8'))
  const bill = JSON.parse(await readFile(`${binary}.sbom.cdx.json`, 'utf8'))
  bill.components.push(...packages)
  const files = {
    'usr/share/doc/sluice/sbom.cdx.json': `${JSON.stringify(bill, undefined, 2)}\n`,
    'etc/passwd': `root:x:0:0:root:/:/sbin/nologin\nsluice:x:${USER}:${USER}:sluice:/data:/sbin/nologin\n`,
    'etc/group': `root:x:0:\nsluice:x:${USER}:\n`,
    'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
    'etc/ssl/certs/ca-certificates.crt': (await Promise.all(certificates)).join('')
  }
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(at(path)), { recursive: true })
    await writeFile(at(path), text)
  }
  for (const folder of ['proc', 'dev', 'var/cache', 'usr/bin']) await mkdir(at(folder), { recursive: true })
  await mkdir(at('tmp'))
  await chmod(at('tmp'), 0o1777)
  await mkdir(at('data'))
  await chmod(at('data'), 0o700)
  await chown(at('data'), USER, USER)
  await cp(binary, at('usr/bin/sluice'))
  await chmod(at('usr/bin/sluice'), 0o755)
}

/** Runs the executable once, which unpacks its files; every user may read them, and only root write. */
async function unpackExecutable() {
  const env = { CACHE_DIRECTORY: '/var/cache' }
  execFileSync('chroot', [out, '/usr/bin/sluice', '--version'], { env: { ...env, PATH: process.env.PATH } })
  execFileSync('chmod', ['-R', 'a+rX', at('var/cache/sluice')])
}

function stop(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { withStore } from '../capabilities/transfer/transfer-stand.js'
import { noSmallDisk, SmallDisk } from '../helpers/small-disk.js'
import { freePort } from '../proxy/free-port.js'
import { runCommand } from './command.js'
import type { Ended } from './process.js'

const MAIN = join(process.cwd(), 'dist-test', 'src', 'main.js')
const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
const NOBODY = 65_534
/** Root may read everything; another user stands for it where it can. */
const AS_USER = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

interface How {
  readonly env?: Record<string, string>
  readonly user?: { readonly uid?: number; readonly gid?: number }
  readonly before?: readonly string[]
}

function child(
  t: Test,
  cwd: string,
  words: readonly string[],
  { env = {}, user = {}, before = [] }: How
): ChildProcess {
  const own = { PATH: process.env.PATH ?? '', ...env }
  const sluice = spawn(process.execPath, [...before, MAIN, ...words], { cwd, env: own, stdio: 'pipe', ...user })
  t.teardown(() => sluice.kill('SIGKILL'))
  return sluice
}

/** What a command says that ends by itself. */
async function run(t: Test, cwd: string, words: readonly string[], how: How = {}): Promise<Ended> {
  const { env, ...more } = how
  if (Object.keys(more).length === 0) return await runCommand(t, words, { cwd, ...(env === undefined ? {} : { env }) })
  const sluice = child(t, cwd, words, how)
  sluice.stdin?.end()
  const [out, err, [code]] = await Promise.all([
    text(sluice.stdout as NonNullable<typeof sluice.stdout>),
    text(sluice.stderr as NonNullable<typeof sluice.stderr>),
    once(sluice, 'close') as Promise<[number | null]>
  ])
  return { code, out, err: err.trimEnd() }
}

t.test('what an operator mistypes is told with what to do', async (t) => {
  const cwd = t.testdir({
    'bad.yaml': 'listen: 127.0.0.1:0\n  api: x\n',
    'geo.yaml': 'geoip:\n  database: bad.yaml\n',
    'tab.yaml': 'api:\n\tlisten: x\n',
    'twice.yaml': 'region: a\nregion: b\n'
  })
  const start = (...words: string[]) => ['start', ...words]
  const SEMICOLON = /; /
  const table: readonly (readonly [words: string[], code: number, err: RegExp])[] = [
    [
      ['import', 'none.yaml', '--yes'],
      1,
      /^nothing was imported: none\.yaml: there is no such file \(ENOENT\); correct/
    ],
    [['import', '.', '--yes'], 1, /^nothing was imported: \.: it is a folder \(EISDIR\); name a file$/],
    [['export'], 1, /^nothing was exported: there is no store .*sluice\.db; name its folder with --data$/],
    [
      ['restore', 'bad.yaml'],
      1,
      /^nothing was restored: bad\.yaml is damaged, or no backup .*; name a file that "sluice backup"/
    ],
    [start('--upstream', 'http://localhost:99999'), 2, /; 99999 is no port, the highest is 65535$/],
    [start('--upstream', 'localhost'), 2, /; the beginning is missing, such as http:\/\/localhost$/],
    [start('--upstream', 'ftp://localhost'), 2, /; ftp:\/\/ is none of the two$/],
    [
      start('--config', 'bad.yaml'),
      2,
      /^bad\.yaml:1:\d+: error: .*the next line is indented further.*; begin both in the same column$/
    ],
    [start('--config', 'tab.yaml'), 2, /^tab\.yaml:2:\d+: error: .*tabs cannot indent YAML; use spaces$/],
    [
      start('--config', 'twice.yaml'),
      2,
      /^twice\.yaml:2:1: error: .*this key stands twice in one map; remove one of them$/
    ],
    [start('--config', 'none.yaml'), 2, /^none\.yaml:1:1: error: there is no such file \(ENOENT\); correct the path$/],
    [
      start('none.yaml', '--data', ':memory:', ...FREE),
      1,
      /^none\.yaml:1:1: error FILE_UNREADABLE: there is no such file \(ENOENT\); correct/
    ],
    [
      start('--config', 'geo.yaml', '--data', ':memory:', ...FREE),
      1,
      /^geoip\.database: .*bad\.yaml cannot be used: it is no MMDB database; name an MMDB file, or leave/
    ],
    [['api-key', 'revoke', 'ak_none'], 1, /has no key ak_none; "sluice api-key list" shows the ids$/]
  ]
  for (const [words, code, err] of table) {
    const told = await run(t, cwd, words)
    t.match(told, { code, err }, words.join(' '))
    t.match(told.err, SEMICOLON)
    t.equal(told.err.split('\n').length, 1, 'one line')
  }
})

t.test('an API that does not answer is told in one line', async (t) => {
  const port = await freePort()
  const api = ['--api', `http://127.0.0.1:${port}`]
  const env = { SLUICE_API_KEY: 'a-key-of-the-operator' }
  for (const words of [['limits'], ['log'], ['plan', 'site.yaml'], ['revert', '1']]) {
    const cwd = t.testdir({ 'site.yaml': 'sites: {}\n' })
    const { code, err } = await run(t, cwd, [...words, ...api], { env })
    t.equal(code, 1, words.join(' '))
    t.match(
      err,
      /127\.0\.0\.1:\d+ cannot be reached: nothing listens there \(ECONNREFUSED\); start what should, or correct/
    )
    t.notMatch(err, /^\s+at /m, 'no stack')
  }
})

t.test('a damaged store is told with the way back, by every command that opens it', async (t) => {
  const cwd = t.testdir()
  const file = join(cwd, 'data', 'sluice.db')
  await mkdir(join(cwd, 'data'))
  await withStore(t, file, async () => undefined)
  const content = await readFile(file)
  await writeFile(file, content.fill(0x41, 4096))
  const way =
    /data\/sluice\.db: the file is damaged, or no SQLite database \(SQLITE_[A-Z]+\); keep a copy .*sluice restore --overwrite/
  for (const words of [['start', ...FREE], ['export'], ['backup', 'b.db']]) {
    t.match(await run(t, cwd, words), { code: 1, err: way }, words.join(' '))
  }
})

t.test('a folder without rights, a file in its place, and a busy port are told', async (t) => {
  const cwd = t.testdir({ file: '' })
  await chmod(cwd, 0o755)
  await mkdir(join(cwd, 'closed'), { mode: 0o500 })
  const closed = await run(t, cwd, ['start', '--data', 'closed/data', ...FREE], { user: AS_USER })
  t.match(closed, {
    code: 1,
    err: /closed\/data.*: this user may not read or write it \(EACCES\); give the file and its folder/
  })
  const inTheWay = await run(t, cwd, ['start', '--data', 'file', ...FREE])
  t.match(inTheWay, { code: 1, err: /file is no folder; name a folder with --data/ })
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  t.teardown(() => busy.close())
  const { port } = busy.address() as AddressInfo
  const memory = ['--data', ':memory:', '--api', '127.0.0.1:0']
  const told = await run(t, cwd, ['start', '--listen', `127.0.0.1:${port}`, ...memory])
  t.match(told, { code: 1, err: /is in use by another process \(EADDRINUSE\); choose another address with --listen/ })
})

t.test('a disk that is full is told', { skip: noSmallDisk() }, async (t) => {
  const cwd = t.testdir()
  const disk = SmallDisk.mount(t, join(cwd, 'disk'))
  disk.fill()
  const sluice = child(t, cwd, ['start', '--data', 'disk', ...FREE], {})
  let out = ''
  const says = (what: RegExp) =>
    new Promise<void>((resolve) => sluice.stdout?.on('data', () => what.test(out) && resolve()))
  sluice.stdout?.setEncoding('utf8').on('data', (piece: string) => {
    out += piece
  })
  await says(/the disk is full \((?:ENOSPC|SQLITE_FULL)\); free space there/)
  disk.empty()
  await says(/"msg":"listening"/)
})

t.test('a reader that leaves ends a command without a word', async (t) => {
  for (const words of [['schema'], ['start', '--help'], ['--version']]) {
    const sluice = child(t, t.testdir(), words, {})
    const err = text(sluice.stderr as NonNullable<typeof sluice.stderr>)
    sluice.stdout?.destroy()
    const [code] = (await once(sluice, 'close')) as [number]
    t.equal(code, 141, 'as a shell reports SIGPIPE')
    t.equal(await err, '', words.join(' '))
  }
})

t.test('a Node that is too old gets one line', async (t) => {
  const cwd = t.testdir({
    'old.cjs': "Object.defineProperty(process.versions, 'node', { value: process.env.PRETENDED })"
  })
  const before = ['--require', './old.cjs']
  for (const [PRETENDED, refused] of [
    ['10.24.1', true],
    ['18.20.4', true],
    ['20.18.3', true],
    ['20.19.0', false],
    ['26.0.0', false]
  ] as const) {
    const told = await run(t, cwd, ['--version'], { before, env: { PRETENDED } })
    if (refused) t.match(told, { code: 2, out: '', err: `sluice needs Node 20.19 or newer; this is Node ${PRETENDED}` })
    else t.match(told, { code: 0, out: /^\d+\.\d+\.\d+ \(.*\)\n$/, err: '' })
  }
  // What Node 10 and later read in either kind of module: no declaration of ours may be younger.
  t.notMatch(await readFile(MAIN, 'utf8'), /^(?:import |export |const |let )|=>|`|\?\.|\?\?|import\.meta|\bawait\b/m)
})

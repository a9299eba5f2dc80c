import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { readFile, stat, symlink } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { ExchangeFile } from '../../src/capabilities/recorder/exchange-file.js'
import { sealerIn, withStore } from '../capabilities/transfer/transfer-stand.js'

const MAIN = join(process.cwd(), 'dist-test', 'src', 'main.js')

async function emptyStore(t: Test, folder: string): Promise<void> {
  await withStore(t, join(folder, 'sluice.db'), async () => undefined)
  await sealerIn(folder)
}

interface Ended {
  readonly code: number | null
  readonly signal: string | null
  readonly err: string
}

/** A command whose standard output, and error where `both`, is a device that is always full. */
async function intoFull(cwd: string, words: readonly string[], both = false): Promise<Ended> {
  const full = openSync('/dev/full', 'w')
  const env = { PATH: process.env.PATH ?? '' }
  const child = spawn(process.execPath, [MAIN, ...words], { cwd, env, stdio: ['ignore', full, both ? full : 'pipe'] })
  const err = child.stderr === null ? Promise.resolve(Buffer.alloc(0)) : buffer(child.stderr)
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return { code, signal, err: String(await err) }
}

function pipeIn(t: Test): string {
  const path = join(t.testdir({}), 'pipe')
  execFileSync('mkfifo', [path])
  return path
}

/** What comes out of a pipe until its writers have closed it. */
function readerOf(t: Test, path: string): Promise<Buffer> {
  const cat = spawn('cat', [path], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => cat.kill('SIGKILL'))
  return buffer(cat.stdout)
}

async function run(cwd: string, words: readonly string[]): Promise<Ended & { readonly out: string }> {
  const env = { PATH: process.env.PATH ?? '' }
  const child = spawn(process.execPath, [MAIN, ...words], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, [code, signal]] = await Promise.all([
    buffer(child.stdout),
    buffer(child.stderr),
    once(child, 'close') as Promise<[number | null, string | null]>
  ])
  return { code, signal, out: String(out), err: String(err) }
}

t.test('a command whose output is full ends with one line and a code', async (t) => {
  const cwd = t.testdir({ 'policy.yaml': 'on_http_request: []\n', 'bad.yaml': 'on_http_request: 1\n' })
  await emptyStore(t, join(cwd, 'data'))
  const commands = [
    ['check', 'policy.yaml'],
    ['check', '--json', 'bad.yaml'],
    ['schema'],
    ['--help'],
    ['--version'],
    ['doctor', '--data', 'data'],
    ['try', 'policy.yaml', 'http://shop.test/'],
    ['export', '--data', 'data'],
    ['test', '--help']
  ]
  for (const words of commands) {
    const { code, signal, err } = await intoFull(cwd, words)
    t.match({ code, signal }, { code: 1, signal: null }, words.join(' '))
    t.match(err, /^(?:.*\n)?error: [^\n]*the disk is full[^\n]*\n$/, words.join(' '))
    t.notMatch(err, /\n\s+at /)
    const silent = await intoFull(cwd, words, true)
    t.match(
      { code: silent.code, signal: silent.signal },
      { code: 1, signal: null },
      `${words.join(' ')}, without errors`
    )
  }
})

t.test('an agent whose output is full goes on', async (t) => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const full = openSync('/dev/full', 'w')
  const words = ['agent', '--server', `127.0.0.1:${port}`, '--https', 'x.test', '--forward', 'http://127.0.0.1:9']
  const env = { PATH: process.env.PATH ?? '', SLUICE_TOKEN: 'x' }
  const child = spawn(process.execPath, [MAIN, ...words], { cwd: t.testdir({}), env, stdio: ['ignore', full, full] })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit').then(() => 'ended')
  for (const attempt of ['first', 'second'])
    t.not(await Promise.race([once(server, 'connection'), ended]), 'ended', `the ${attempt} attempt`)
})

t.test('what is written for a pipe or a device comes there, and it stays what it is', async (t) => {
  const cwd = t.testdir({})
  await emptyStore(t, join(cwd, 'data'))
  const pipe = join(cwd, 'pipe')
  execFileSync('mkfifo', [pipe])
  const read = readerOf(t, pipe)
  t.match(await run(cwd, ['export', '--data', 'data', '--output', 'pipe']), { code: 0, err: '' })
  t.match(String(await read), 'A whole Sluice account')
  const backup = readerOf(t, pipe)
  t.match(await run(cwd, ['backup', '--data', 'data', 'pipe']), { code: 0, out: '', err: /^pipe: revision/ })
  t.match((await backup).subarray(0, 15).toString(), 'SQLite format 3')
  t.ok((await stat(pipe)).isFIFO())
  t.match(await run(cwd, ['export', '--data', 'data', '--output', '/dev/full']), { code: 1, err: /the disk is full/ })
  t.match(await run(cwd, ['backup', '--data', 'data', '/dev/full']), { code: 1, err: /the disk is full/ })
  t.ok((await stat('/dev/full')).isCharacterDevice())
  const piped = `'${process.execPath}' '${MAIN}' export --data data --output /dev/stdout | cat`
  t.match(execFileSync('sh', ['-c', piped], { cwd }).toString(), 'A whole Sluice account')
  await symlink('real.yaml', join(cwd, 'link.yaml'))
  t.match(await run(cwd, ['export', '--data', 'data', '--output', 'link.yaml']), { code: 0 })
  t.match(await readFile(join(cwd, 'real.yaml'), 'utf8'), 'A whole Sluice account')
})

t.test('recorded exchanges go into a pipe, also before it has a reader, and never replace it', async (t) => {
  const path = pipeIn(t)
  const file = new ExchangeFile(path, 100, (reason) => t.fail(reason))
  for (let i = 0; i < 10; i++) file.write({ id: i, text: 'x'.repeat(50) })
  const cat = spawn('cat', [path], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => cat.kill('SIGKILL'))
  const read: Buffer[] = []
  cat.stdout.on('data', (chunk: Buffer) => read.push(chunk))
  // What a pipe holds goes when nobody has it open any more.
  await once(cat.stdout, 'data')
  file.write({ id: 'last' })
  const ended = once(cat, 'close')
  await file.close()
  await ended
  const lines = String(Buffer.concat(read)).trim().split('\n')
  t.equal(lines.length, 11)
  t.same(JSON.parse(lines.at(-1) ?? ''), { id: 'last' })
  t.ok((await stat(path)).isFIFO())
})

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { lacks } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { heldSocket } from './held-socket.js'

const run = promisify(execFile)
const MAIN = join(process.cwd(), 'dist-test', 'src', 'main.js')
const UNITS = join('config', 'systemd')
const KEY = 'a-key-of-the-operator'

/** Starts the product with these sockets as a service manager does: the shell becomes the process. */
function serviceOf(t: Test, cwd: string, fds: readonly number[], env: Record<string, string>): ChildProcess {
  const script = 'LISTEN_PID=$$ exec "$@"'
  const policy = ['--upstream', 'http://127.0.0.1:1', '--policy', 'p.yaml', '--data', ':memory:']
  const child = spawn('sh', ['-c', script, 'sh', process.execPath, MAIN, 'start', ...policy], {
    cwd,
    env: { PATH: process.env.PATH ?? '', SLUICE_API_KEY: KEY, LISTEN_FDS: String(fds.length), ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...fds]
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

/** The line that says where it listens; what it said instead when it ends before. */
async function listening(child: ChildProcess): Promise<{ traffic: string; api: string; agents?: string }> {
  let err = ''
  child.stderr?.on('data', (piece) => {
    err += piece
  })
  for await (const line of createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })) {
    if (line.includes('"msg":"listening"')) {
      child.stdout?.resume()
      return JSON.parse(line)
    }
  }
  throw new Error(err)
}

const ANSWER = 'on_http_request:\n  - actions:\n      - { type: custom-response, config: { status_code: 204 } }\n'

/** One request on a connection of its own: its status, or the code of its error. */
function ask(port: number): Promise<number | string> {
  return new Promise((resolve) => {
    const outgoing = request({ port, host: '127.0.0.1', agent: false, headers: { host: 'x.test' } }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode ?? 0))
    })
    outgoing.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message)).end()
  })
}

t.test('sockets of the service manager become the listeners of their names', async (t) => {
  const cwd = t.testdir({ 'p.yaml': ANSWER })
  const [traffic, api, agents, further] = [heldSocket(t), heldSocket(t), heldSocket(t), heldSocket(t)]
  const child = serviceOf(t, cwd, [api.fd, traffic.fd, agents.fd, further.fd], {
    LISTEN_FDNAMES: 'api.listen:listen:agents:127.0.0.1\\x3a8081',
    SLUICE_AGENTS: '127.0.0.1:4443',
    SLUICE_LISTENERS: 'http://127.0.0.1:8081'
  })
  const started = await listening(child)
  t.same(started.traffic, `http://127.0.0.1:${traffic.port}`)
  t.same(started.api, `http://127.0.0.1:${api.port}`)
  t.match(started.agents, new RegExp(`:${agents.port}$`))
  t.equal(await ask(traffic.port), 204)
  t.equal(await ask(further.port), 204)
  t.equal((await fetch(`http://127.0.0.1:${api.port}/readyz`)).status, 200)
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null], 'it closes what it was given')
})

t.test('a socket without a place is refused with what to write', async (t) => {
  const cwd = t.testdir({ 'p.yaml': ANSWER })
  const [one, other] = [heldSocket(t), heldSocket(t)]
  const child = serviceOf(t, cwd, [one.fd, other.fd], { LISTEN_FDNAMES: 'listen:web' })
  await t.rejects(listening(child), {
    message: /a socket named "web"; expected listen, api\.listen: correct FileDescriptorName=/
  })
})

t.test('a restart refuses nobody and breaks nothing', async (t) => {
  const cwd = t.testdir({ 'p.yaml': ANSWER })
  const [traffic, api] = [heldSocket(t), heldSocket(t)]
  const next = () => serviceOf(t, cwd, [traffic.fd, api.fd], { LISTEN_FDNAMES: 'listen:api.listen' })
  let child = next()
  await listening(child)
  const answers = new Map<number | string, number>()
  let over = false
  const clients = [1, 2, 3].map(async () => {
    while (!over) {
      const answer = await ask(traffic.port)
      answers.set(answer, (answers.get(answer) ?? 0) + 1)
    }
  })
  for (let restart = 0; restart < 2; restart++) {
    const before = answers.get(204) ?? 0
    await until(() => (answers.get(204) ?? 0) > before + 20)
    child.kill('SIGTERM')
    await once(child, 'exit')
    child = next()
    await listening(child)
  }
  const before = answers.get(204) ?? 0
  await until(() => (answers.get(204) ?? 0) > before + 20)
  over = true
  await Promise.all(clients)
  t.same([...answers.keys()], [204], JSON.stringify([...answers]))
})

t.test('the service manager hears of start, reload, stop and life', async (t) => {
  const cwd = t.testdir({
    'p.yaml': ANSWER,
    heard: '',
    // What is slow to arrive must not be overtaken.
    bin: { 'systemd-notify': `#!/bin/sh\ncase "$*" in READY*) sleep 0.3;; esac\nprintf '%s\\n' "$*" >>"$HEARD"\n` }
  })
  await chmod(join(cwd, 'bin', 'systemd-notify'), 0o755)
  const HEARD = join(cwd, 'heard')
  const socket = heldSocket(t)
  const env = { PATH: `${join(cwd, 'bin')}:${process.env.PATH}`, NOTIFY_SOCKET: join(cwd, 'notify'), HEARD }
  // An unnamed socket is that of `listen`; the signs of life come every 100 ms.
  const child = serviceOf(t, cwd, [socket.fd], {
    ...env,
    WATCHDOG_USEC: '200000',
    LISTEN_FDNAMES: 'sluice.socket',
    SLUICE_API_LISTEN: '127.0.0.1:0'
  })
  await listening(child)
  const heard = async () => (await readFile(HEARD, 'utf8')).split('\n').filter((line) => line !== '')
  const has = async (what: RegExp) => (await heard()).some((line) => what.test(line))
  await until(() => has(/^WATCHDOG=1$/))
  t.equal((await heard())[0], 'READY=1 STATUS=serves', 'the first that it hears')
  await writeFile(join(cwd, 'p.yaml'), ANSWER.replace('204', '205'))
  child.kill('SIGHUP')
  await until(async () => (await heard()).filter((line) => line.startsWith('READY=1')).length >= 2)
  const lines = await heard()
  t.match(
    lines.find((line) => line.startsWith('RELOADING=1')),
    /^RELOADING=1 MONOTONIC_USEC=\d+ STATUS=/
  )
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
  t.match((await heard()).at(-1), /^STOPPING=1 /)
})

t.test('a missing systemd-notify is told once, and hinders nothing', async (t) => {
  const cwd = t.testdir({ 'p.yaml': ANSWER, bin: {} })
  const node = join(cwd, 'bin', 'sh')
  await run('ln', ['-s', '/bin/sh', node])
  const socket = heldSocket(t)
  const env = { PATH: join(cwd, 'bin'), NOTIFY_SOCKET: join(cwd, 'notify'), WATCHDOG_USEC: '100000' }
  const child = serviceOf(t, cwd, [socket.fd], { ...env, SLUICE_API_LISTEN: '127.0.0.1:0' })
  let warnings = 0
  child.stdout?.on('data', (piece) => {
    warnings += String(piece).split('the service manager cannot be notified').length - 1
  })
  await until(() => warnings === 1)
  t.equal(await ask(socket.port), 204)
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
  t.equal(warnings, 1)
})

t.test('the units are as systemd wants them', { skip: lacks('systemd-analyze', ['--version']) }, async (t) => {
  const folder = t.testdir()
  for (const name of ['sluice.service', 'sluice.socket']) {
    const text = await readFile(join(UNITS, name), 'utf8')
    // The product is not installed where the unit looks for it.
    await writeFile(join(folder, name), text.replace('/opt/sluice/dist/main.js', MAIN))
  }
  const units = ['sluice.service', 'sluice.socket'].map((name) => join(folder, name))
  const { stderr } = await run('systemd-analyze', ['verify', '--man=no', ...units], {
    env: { ...process.env, SYSTEMD_UNIT_PATH: `${folder}:` }
  })
  t.equal(
    stderr
      .split('\n')
      .filter((line) => line.includes('sluice'))
      .join('\n'),
    ''
  )
  let exposed = ''
  try {
    exposed = execFileSync('systemd-analyze', ['security', '--offline=yes', '--threshold=30', units[0] as string], {
      encoding: 'utf8'
    })
  } catch (error) {
    exposed = `${(error as { stdout?: string }).stdout}`
    t.fail(`the unit is more exposed than 3.0: ${exposed.slice(-200)}`)
  }
  t.match(exposed, /Overall exposure level/)
})

t.test('a first connection starts it', { skip: lacks('systemd-socket-activate', ['--version']) }, async (t) => {
  const cwd = t.testdir({ 'p.yaml': ANSWER })
  const port = await freePort()
  const words = [
    '--listen',
    `127.0.0.1:${port}`,
    '--fdname',
    'listen',
    '--setenv',
    'SLUICE_API_LISTEN=127.0.0.1:0',
    '--setenv',
    'SLUICE_DATA=:memory:'
  ]
  const product = [process.execPath, MAIN, 'start', '--upstream', 'http://127.0.0.1:1', '--policy', 'p.yaml']
  const child = spawn('systemd-socket-activate', [...words, ...product], {
    cwd,
    env: { PATH: process.env.PATH ?? '' },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stderr.on('data', (piece) => {
    said += piece
  })
  await until(() => said.includes('Listening on'))
  t.equal(await ask(port), 204, 'it waited until the process was there')
  child.kill('SIGTERM')
  await once(child, 'exit')
})

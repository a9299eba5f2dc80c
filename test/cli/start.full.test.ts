import { once } from 'node:events'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { runCommand } from './command.js'
import { SluiceProcess } from './process.js'

const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
const KEY = 'a-key-of-the-administrator'

/** A policy that answers by itself. */
function answering(status: number): string {
  return `on_http_request:\n  - actions:\n      - type: custom-response\n        config:\n          status_code: ${status}\n`
}

async function upstream(t: Test, server: Server = createServer((_request, response) => response.end('from upstream'))) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function started(t: Test, words: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const cwd = options.cwd ?? t.testdir()
  const env = { SLUICE_API_KEY: KEY, SLUICE_DATA: ':memory:', SLUICE_LIMITER_BUDGET: '64MiB', ...options.env }
  const sluice = new SluiceProcess(t, ['start', ...FREE, ...words], { cwd, env })
  const { traffic, api } = (await sluice.logged('listening')) as { traffic: string; api: string }
  return { sluice, traffic, api, cwd }
}

t.test('it forwards, tells its health, and leaves with 0 when asked', async (t) => {
  const { sluice, traffic, api, cwd } = await started(t, ['--upstream', await upstream(t)])
  t.equal(await (await fetch(traffic)).text(), 'from upstream')
  const health = await fetch(`${api}/healthz`)
  t.equal(health.status, 200)
  t.same(await health.json(), { status: 'ok' })
  t.equal((await fetch(`${api}/metrics`)).status, 401)
  const metrics = await fetch(`${api}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
  t.match(await metrics.text(), /^sluice_requests_total/m)
  t.match(await sluice.logged('exchange'), { method: 'GET', status: 200, path: '/' })
  if (process.platform === 'linux')
    t.equal(await readFile(`/proc/${sluice.child.pid}/comm`, 'utf8'), 'sluice\n', 'pgrep finds it')
  sluice.child.kill('SIGTERM')
  const { code, out, err } = await sluice.ended()
  t.equal(code, 0)
  t.equal(err, '')
  t.notMatch(out, KEY)
  t.same(await readdir(cwd), [], ':memory: leaves nothing on disk')
})

t.test('the demo limits without any argument, from any folder', async (t) => {
  const { sluice, traffic, cwd } = await started(t, ['--demo'])
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) statuses.push((await fetch(traffic)).status)
  t.same(statuses, [200, 200, 200, 200, 200, 429])
  // Only one process of a machine has the port that the file of the demo names; another demo serves the same by options.
  const { site_file, upstream: own } = await sluice.logged('listening')
  t.match(site_file ?? own, site_file === undefined ? /^http:/ : /config\/demo\.yaml$/)
  sluice.child.kill('SIGINT')
  t.equal((await sluice.ended()).code, 0)
  t.same(await readdir(cwd), [])
})

t.test("the demo takes a policy of one's own", async (t) => {
  const cwd = t.testdir({ 'p.yaml': answering(203) })
  const { traffic } = await started(t, ['--demo', '--policy', 'p.yaml'], { cwd })
  t.equal((await fetch(traffic)).status, 203)
})

t.test('the demo steps aside for an upstream', async (t) => {
  const { traffic } = await started(t, ['--demo'], { env: { SLUICE_UPSTREAM: await upstream(t) } })
  for (let i = 0; i < 7; i++) t.equal(await (await fetch(traffic)).text(), 'from upstream')
})

t.test('saving the policy and SIGHUP apply it; a broken one is told and changes nothing', async (t) => {
  const cwd = t.testdir({ 'p.yaml': answering(201) })
  const { sluice, traffic } = await started(t, ['--upstream', await upstream(t), '--policy', 'p.yaml'], { cwd })
  const policy = join(cwd, 'p.yaml')
  t.equal((await fetch(traffic)).status, 201)
  await writeFile(join(cwd, 'p.tmp'), answering(202))
  await rename(join(cwd, 'p.tmp'), policy)
  t.match(await sluice.logged('reloaded'), { revision: 1, changed: true })
  t.equal((await fetch(traffic)).status, 202)
  await writeFile(policy, 'on_http_request:\n  - actions:\n      - type: dney\n')
  t.match(await sluice.told('p.yaml:3:15: error ACTION_UNKNOWN: '), /deny/)
  t.match(await sluice.logged('reload failed'), { revision: 1, errors: 1 })
  t.equal((await fetch(traffic)).status, 202)
  sluice.child.kill('SIGHUP')
  t.match(await sluice.logged('reload failed'), { revision: 1 })
})

t.test('an emptied policy file is refused, a deleted one is told; the policy before it stays', async (t) => {
  const cwd = t.testdir({ 'p.yaml': answering(403), 'empty.yaml': '# nothing\n' })
  const { sluice, traffic } = await started(t, ['--upstream', await upstream(t), '--policy', 'p.yaml'], { cwd })
  const policy = join(cwd, 'p.yaml')
  await writeFile(policy, '')
  t.match(await sluice.told('p.yaml:1:1: error DOCUMENT_EMPTY: '), /on_http_request: \[\]/)
  t.match(await sluice.logged('reload failed'), { revision: 1, errors: 1 })
  t.equal((await fetch(traffic)).status, 403)
  await rm(policy)
  t.match(await sluice.logged('a configuration file cannot be read'), {
    level: 50,
    code: 'ENOENT',
    file: policy
  })
  t.equal((await fetch(traffic)).status, 403)
  await writeFile(policy, 'on_http_request: []\n')
  t.match(await sluice.logged('reloaded'), { revision: 1, changed: true })
  t.equal((await fetch(traffic)).status, 200, 'a policy that says that it has no rules is one')

  const words = ['start', ...FREE, '--upstream', 'http://127.0.0.1:1', '--policy', 'empty.yaml', '--data', ':memory:']
  const { code, err } = await new SluiceProcess(t, words, { cwd }).ended()
  t.equal(code, 1)
  t.match(err, /^empty\.yaml:1:1: error DOCUMENT_EMPTY: /)
})

t.test('a stopping process finishes what is under way and ends at once when asked again', async (t) => {
  const requests: (() => void)[] = []
  const slow = createServer((_request, response) => {
    requests.push(() => response.end('late'))
    slow.emit('arrived')
  })
  const url = await upstream(t, slow)
  const { sluice, traffic } = await started(t, ['--upstream', url])
  let arrived = once(slow, 'arrived')
  const pending = fetch(traffic)
  await arrived
  sluice.child.kill('SIGTERM')
  await sluice.logged('stopping')
  requests[0]?.()
  t.equal(await (await pending).text(), 'late')
  t.equal((await sluice.ended()).code, 0)

  const stubborn = await started(t, ['--upstream', url])
  arrived = once(slow, 'arrived')
  const cut = fetch(stubborn.traffic)
  await arrived
  stubborn.sluice.child.kill('SIGINT')
  await stubborn.sluice.logged('stopping')
  // Two signals close together are one wish, so the second is repeated until it counts.
  const again = setInterval(() => stubborn.sluice.child.kill('SIGINT'), 100)
  t.teardown(() => clearInterval(again))
  await t.rejects(cut)
  t.equal((await stubborn.sluice.ended()).code, 130)
})

t.test('what a user did wrong is told in one line each, without a stack', async (t) => {
  const taken = await upstream(t)
  const address = taken.slice('http://'.length)
  const cwd = t.testdir({ 'bad.yaml': 'on_http_request:\n  - actions:\n      - type: dney\n', file: '' })
  const memory = ['--data', ':memory:']
  const cases: [words: string[], env: Record<string, string>, code: number, told: RegExp][] = [
    [
      ['--listen', address, '--api', '127.0.0.1:0', ...memory],
      {},
      1,
      new RegExp(`^listen: ${address} is in use .*--listen, SLUICE_LISTEN`)
    ],
    [
      ['--api', address, '--listen', '127.0.0.1:0', ...memory],
      {},
      1,
      new RegExp(`^api\\.listen: ${address} is in use .*--api, SLUICE_API_LISTEN`)
    ],
    [[...FREE, ...memory], { SLUICE_API_KEY: 'short' }, 1, /^SLUICE_API_KEY must have 16 to 256/],
    [
      [...FREE, '--data', 'file/x'],
      {},
      1,
      /^data: .*file\/x: a part of the path is a file and no folder \(ENOTDIR\); correct the path$/
    ],
    [
      [...FREE, ...memory, '--upstream', 'http://127.0.0.1:1', '--policy', 'none.yaml'],
      {},
      1,
      /^policy: cannot read .*none\.yaml: there is no such file \(ENOENT\); correct the path$/
    ],
    [
      [...FREE, ...memory, '--upstream', 'http://127.0.0.1:1', '--policy', 'bad.yaml'],
      {},
      1,
      /^bad\.yaml:3:15: error ACTION_UNKNOWN: .*deny/
    ],
    [
      ['--listen', 'x', '--upstream', 'y'],
      {},
      2,
      /^--upstream: error: upstream: "y" is not allowed.*\n--listen: error: listen: "x" is not allowed/
    ],
    [['--frobnicate'], {}, 2, /^error: unknown option '--frobnicate'/]
  ]
  await Promise.all(
    cases.map(async ([words, env, code, told]) => {
      const ended = await new SluiceProcess(t, ['start', ...words], { cwd, env }).ended()
      t.equal(ended.code, code, words.join(' '))
      t.match(ended.err, told)
      t.notMatch(ended.err, /^ +at /m)
      t.notMatch(ended.out, 'listening')
    })
  )
})

/** The key of a start whose output is no terminal: it names the file that has the key, and never the key. */
async function keyOf(sluice: SluiceProcess, cwd: string): Promise<string> {
  const [, file = ''] = /^the API key is in (\S+);/.exec(await sluice.told('API key')) ?? []
  return (await readFile(resolve(cwd, file), 'utf8')).trim()
}

t.test('a first key is made, named until it was used, and another can be added while running', async (t) => {
  const cwd = t.testdir()
  const env = { SLUICE_API_KEY: '', SLUICE_DATA: 'var' }
  const { sluice, api } = await started(t, [], { cwd, env })
  const first = await keyOf(sluice, cwd)
  const made = await runCommand(t, ['api-key', 'create', '--data', 'var'], { cwd })
  t.equal(made.code, 0)
  const statuses = [first, made.out.trim(), 'sluice_not-a-key'].map(
    async (key) => (await fetch(`${api}/metrics`, { headers: { authorization: `Bearer ${key}` } })).status
  )
  t.same(await Promise.all(statuses), [200, 200, 401])
  sluice.child.kill('SIGTERM')
  t.notMatch((await sluice.ended()).out, first, 'the key is in no log line')
  const second = await started(t, [], { cwd, env })
  second.sluice.child.kill('SIGTERM')
  t.notMatch((await second.sluice.ended()).err, 'API key', 'the key was used, so the second start shows none')
  const nowhere = await runCommand(t, ['api-key', 'create', '--data', ':memory:'], { cwd })
  t.equal(nowhere.code, 2)
})

t.test('a first start that fails loses no key: the next one shows it, and each one until it was used', async (t) => {
  const cwd = t.testdir()
  const env = { SLUICE_API_KEY: '', SLUICE_DATA: 'var' }
  const taken = (await upstream(t)).slice('http://'.length)
  for (const words of [
    ['--listen', '127.0.0.1:0', '--api', taken],
    ['--listen', taken, '--api', '127.0.0.1:0']
  ]) {
    const failed = await new SluiceProcess(t, ['start', ...words], { cwd, env }).ended()
    t.equal(failed.code, 1)
    t.notMatch(failed.err, 'API key')
  }
  const shown: string[] = []
  for (let n = 0; n < 2; n++) {
    const { sluice } = await started(t, [], { cwd, env })
    shown.push(await keyOf(sluice, cwd))
    sluice.child.kill('SIGTERM')
    await sluice.ended()
  }
  t.match(shown[0], /^sluice_/)
  t.equal(shown[1], shown[0])
  t.notMatch(await readFile(join(cwd, 'var', 'api-keys.json'), 'utf8'), shown[0] as string)
  const { api } = await started(t, [], { cwd, env })
  t.equal((await fetch(`${api}/metrics`, { headers: { authorization: `Bearer ${shown[0]}` } })).status, 200)
})

t.test('the program tells its version and its commands, and guesses what was meant', async (t) => {
  const cwd = t.testdir()
  const run = (...words: string[]) => new SluiceProcess(t, words, { cwd }).ended()
  const [version, help, none, typo] = await Promise.all([run('--version'), run('--help'), run(), run('strat')])
  t.match(version, { code: 0, out: /^\d+\.\d+\.\d+ \((?:commit [0-9a-f]{12}, )?Node \d+\.\d+\.\d+\)$/, err: '' })
  t.equal(help.code, 0)
  for (const command of ['start', 'check', 'schema', 'api-key', 'Examples:']) t.match(help.out, command)
  t.equal(none.code, 2)
  t.match(typo, { code: 2, err: /Did you mean start\?/ })
})

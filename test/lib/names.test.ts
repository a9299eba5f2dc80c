import { pbkdf2 } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { codeOf } from '../../src/lib/errors.js'
import { FailingNames, type Lookup, ServerSilence } from '../../src/lib/names/lookups.js'
import { createNames, namesOf } from '../../src/lib/names/names.js'
import { OwnResolver } from '../../src/lib/names/own-resolver.js'
import { parseHosts, parseSearchRules } from '../../src/lib/names/system-files.js'
import { ManualClock } from '../helpers/clock.js'
import { type NameAnswer, startNameServer } from '../helpers/name-server.js'
import { until } from '../helpers/until.js'

interface Setup {
  readonly names?: Readonly<Record<string, NameAnswer>>
  readonly hosts?: string
  readonly search?: string
  readonly deadline?: number
}

async function stand(t: Test, { names = {}, hosts = '', search = '', deadline = 5_000 }: Setup = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-names-'))
  const files = { hosts: join(folder, 'hosts'), resolver: join(folder, 'resolv.conf') }
  await Promise.all([writeFile(files.hosts, hosts), writeFile(files.resolver, search)])
  const server = await startNameServer(t, names)
  const clock = new ManualClock()
  const looked: string[] = []
  const resolver = new OwnResolver({
    servers: [server.address],
    clock,
    files,
    looked: ({ name, result, source }) => looked.push(`${name} ${result} ${source}`),
    patience: { deadline, stale: 50 }
  })
  t.teardown(async () => {
    resolver.close()
    await rm(folder, { recursive: true })
  })
  const lookup = (name: string) => resolver.lookup(name)
  const failure = async (name: string) => {
    try {
      return (await resolver.lookup(name)).join(' ')
    } catch (error) {
      return codeOf(error)
    }
  }
  return { server, clock, files, resolver, lookup, failure, looked }
}

t.test('answers live as long as they say, and names that do not exist for five seconds', async (t) => {
  const { server, clock, lookup, failure } = await stand(t, { names: { 'a.test': ['192.0.2.1', '2001:db8::1'] } })
  t.same([...(await lookup('A.test'))].sort(), ['192.0.2.1', '2001:db8::1'], 'both families')
  t.same([...server.asked].sort(), ['a.test A', 'a.test AAAA'])
  server.names.set('a.test', ['192.0.2.2'])
  clock.advance(59_999)
  t.equal((await lookup('a.test')).length, 2)
  t.equal(server.asked.length, 2, 'nobody was asked again')
  clock.advance(1)
  t.same(await lookup('a.test'), ['192.0.2.2'])
  t.equal(server.asked.length, 4)

  t.equal(await failure('b.test'), 'ENOTFOUND')
  server.names.set('b.test', ['192.0.2.3'])
  clock.advance(4_999)
  t.equal(await failure('b.test'), 'ENOTFOUND', 'remembered')
  clock.advance(1)
  t.equal(await failure('b.test'), '192.0.2.3')

  server.ttl = 0
  server.names.set('c.test', ['192.0.2.4'])
  await lookup('c.test')
  server.names.set('c.test', ['192.0.2.5'])
  t.same(await lookup('c.test'), ['192.0.2.5'], 'a time of 0 is used once')
})

t.test('several addresses take turns', async (t) => {
  const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const { lookup } = await stand(t, { names: { 'a.test': addresses } })
  const firsts = [await lookup('a.test'), await lookup('a.test'), await lookup('a.test')].map(([first]) => first)
  t.same(firsts.sort(), addresses)
})

t.test('one question for a name is out at a time, and a name that hangs holds up nothing else', async (t) => {
  const names = { 'good.test': ['192.0.2.1'], 'hangs.test': 'silent' } as const
  const { server, lookup, failure } = await stand(t, { names, deadline: 400 })
  const waiting = Array.from({ length: 200 }, () => failure('hangs.test'))
  const others = Array.from({ length: 100 }, (_, i) => failure(`hangs-${i}.test`))
  for (let i = 0; i < 100; i++) server.names.set(`hangs-${i}.test`, 'silent')
  let done = false
  const all = Promise.all([...waiting, ...others]).then((codes) => {
    done = true
    return codes
  })
  t.same(await lookup('good.test'), ['192.0.2.1'])
  // The thread pool, which files and compression share, is free.
  await promisify(pbkdf2)('a', 'b', 1, 16, 'sha256')
  t.equal(done, false, 'the others still wait')
  t.same([...new Set(await all)], ['EAI_AGAIN'])
  t.equal(server.asked.filter((one) => one === 'hangs.test A').length, 1)
  const again = failure('hangs.test')
  t.equal(await again, 'EAI_AGAIN')
  t.equal(server.asked.filter((one) => one === 'hangs.test A').length, 1, 'the first question is still out')
})

t.test('while no server answers, addresses that have expired stand in for an hour', async (t) => {
  const { server, clock, failure } = await stand(t, { names: { 'a.test': ['192.0.2.1'] } })
  for (const [name, fault] of [
    ['a.test', 'fails'],
    ['b.test', 'silent']
  ] as const) {
    server.names.set(name, ['192.0.2.1'])
    t.equal(await failure(name), '192.0.2.1')
    server.names.set(name, fault)
    clock.advance(61_000)
    t.equal(await failure(name), '192.0.2.1', fault)
    const asked = server.asked.length
    t.equal(await failure(name), '192.0.2.1')
    t.equal(server.asked.length, asked, 'the next one does not ask at once')
    clock.advance(3_700_000)
  }
  t.equal(await failure('a.test'), 'EAI_AGAIN')
  server.names.delete('a.test')
  clock.advance(2_000)
  t.equal(await failure('a.test'), 'ENOTFOUND', 'a server that says there is none is believed')
})

t.test('the file of hosts comes first and is read again when it has changed', async (t) => {
  const hosts = '192.0.2.9 Box.test box # ours\n2001:db8::9 box.test\nnonsense x.test\n'
  const { server, clock, files, failure } = await stand(t, { hosts, names: { 'box.test': ['192.0.2.1'] } })
  t.equal(await failure('box.test'), '192.0.2.9 2001:db8::9')
  t.equal(await failure('BOX'), '192.0.2.9')
  await writeFile(files.hosts, '192.0.2.10 other.test\n')
  clock.advance(1_000)
  t.equal(await failure('other.test'), '192.0.2.10')
  t.same(server.asked, [])
  t.equal(await failure('box.test'), '192.0.2.1')
  await rm(files.hosts)
  clock.advance(1_000)
  t.equal(await failure('other.test'), 'ENOTFOUND')
  await writeFile(files.hosts, '192.0.2.11 other.test\n')
  clock.advance(1_000)
  t.equal(await failure('other.test'), '192.0.2.11')
})

t.test('search domains complete a name', async (t) => {
  const names: Record<string, NameAnswer> = {
    'web.one.test': ['192.0.2.1'],
    'web.two.test': ['192.0.2.2'],
    'api.ns.two.test': ['192.0.2.3'],
    'api.ns': ['192.0.2.4'],
    'down.one.test': 'fails',
    'down.two.test': ['192.0.2.5']
  }
  const { server, clock, files, failure } = await stand(t, { names, search: 'search one.test two.test.\n' })
  t.equal(await failure('web'), '192.0.2.1')
  t.equal(await failure('web.'), 'ENOTFOUND', 'a dot at the end: complete')
  t.equal(await failure('api.ns'), '192.0.2.4', 'a name with a dot is asked for as it is first')
  t.equal(await failure('down'), 'EAI_AGAIN', 'what could not be asked is not skipped')
  server.names.delete('web.one.test')
  await writeFile(files.resolver, 'search one.test two.test\noptions timeout:1 ndots:2\n')
  clock.advance(61_000)
  t.equal(await failure('web'), '192.0.2.2')
  t.equal(await failure('api.ns'), '192.0.2.3', 'with fewer dots than ndots the domains come first')
})

t.test('names with a meaning of their own, and texts that are no names, are not asked for', async (t) => {
  const { server, failure } = await stand(t, { hosts: '192.0.2.1 localhost\n' })
  for (const name of ['localhost', 'LOCALHOST.', 'a.sluice.localhost']) {
    t.equal(await failure(name), '127.0.0.1 ::1', name)
  }
  for (const name of ['x.invalid', 'x.onion', '', 'a..b', 'a b', 'a/b', '127.1', '0x7f.0.0.0x1', 'x'.repeat(64)]) {
    t.equal(await failure(name), 'ENOTFOUND', name)
  }
  t.equal(await failure('192.0.2.1'), '192.0.2.1')
  t.equal(await failure('fe80::1%eth0'), 'fe80::1%eth0')
  t.same(server.asked, [])
  t.equal(await failure('bücher.test'), 'ENOTFOUND')
  t.ok(server.asked.includes('xn--bcher-kva.test A'))
})

t.test('sockets connect by it', async (t) => {
  const { resolver } = await stand(t, { names: { 'web.test': ['127.0.0.1'], 'six.test': ['2001:db8::1'] } })
  const { forSockets } = namesOf(resolver)
  const web = createServer((_, response) => response.end())
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
  t.teardown(() => web.close())
  const socket = connect({ host: 'web.test', port: (web.address() as AddressInfo).port, lookup: forSockets })
  await new Promise((resolve) => socket.once('connect', resolve))
  t.equal(socket.remoteAddress, '127.0.0.1')
  socket.destroy()
  const of = (host: string, family: number) =>
    new Promise((resolve) => forSockets(host, { family }, (error, address) => resolve(error?.code ?? address)))
  t.equal(await of('web.test', 4), '127.0.0.1')
  t.equal(await of('six.test', 6), '2001:db8::1')
  t.equal(await of('web.test', 6), 'ENOTFOUND')
  t.equal(await of('none.test', 0), 'ENOTFOUND')
})

t.test('each look-up is told with its result and who knew it', async (t) => {
  const { server, clock, looked, failure } = await stand(t, {
    hosts: '192.0.2.9 box\n',
    names: { 'a.test': ['192.0.2.1'], 'fails.test': 'fails', 'hangs.test': 'silent' },
    deadline: 400
  })
  for (const name of ['A.test', 'a.test', 'box', 'localhost', 'none.test', 'none.test', 'fails.test', 'fails.test']) {
    await failure(name)
  }
  await failure('hangs.test')
  server.names.set('a.test', 'fails')
  clock.advance(61_000)
  await failure('a.test')
  for (const name of ['192.0.2.1', 'a b', 'x.invalid']) await failure(name)
  t.same(looked, [
    'a.test found server',
    'a.test found cache',
    'box found local',
    'localhost found local',
    'none.test not_found server',
    'none.test not_found cache',
    'fails.test failed server',
    'fails.test failed cache',
    'hangs.test timed_out server',
    'a.test found stale'
  ])
})

t.test('a name fails from its last look-up until one finds it, for a minute at most', async (t) => {
  const clock = new ManualClock()
  const failing = new FailingNames(clock)
  failing.looked({ name: 'a.test', result: 'failed' })
  failing.looked({ name: 'a.test', result: 'timed_out' })
  failing.looked({ name: 'b.test', result: 'not_found' })
  failing.looked({ name: 'c.test', result: 'found' })
  t.same(failing.counts(), { not_found: 1, failed: 0, timed_out: 1 })
  clock.advance(50_000)
  failing.looked({ name: 'a.test', result: 'failed' })
  clock.advance(10_001)
  t.same(failing.counts(), { not_found: 0, failed: 1, timed_out: 0 })
  failing.looked({ name: 'a.test', result: 'found' })
  t.same(failing.counts(), { not_found: 0, failed: 0, timed_out: 0 })
  for (let i = 0; i < 20_000; i++) failing.looked({ name: `${i}.test`, result: 'failed' })
  t.equal(failing.counts().failed, 10_000, 'names that requests choose cost a bounded memory')
})

t.test('servers are silent when they do not answer for the root either', async (t) => {
  const clock = new ManualClock()
  const answers: (string | undefined)[] = []
  let asked = 0
  const silence = new ServerSilence(clock, async () => {
    asked++
    return answers.shift()
  })
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  t.equal(silence.holds, false)
  answers.push('EREFUSED', 'ETIMEOUT', 'ECONNREFUSED', undefined)
  silence.ended('ETIMEOUT')
  await turn()
  t.equal(silence.holds, false, 'one name hangs, and the servers answer')
  silence.ended('ETIMEOUT')
  t.equal(asked, 1, 'names that hang make no flood of questions')
  clock.advance(5_000)
  silence.ended('ETIMEOUT')
  await turn()
  t.equal(silence.holds, true)
  clock.advance(5_000)
  t.equal(silence.holds, true)
  await turn()
  t.equal(asked, 3, 'they are asked again while no name is')
  clock.advance(5_000)
  silence.ended('ECANCELLED')
  t.equal(silence.holds, true)
  await turn()
  t.equal(silence.holds, false)
  answers.push('ETIMEOUT')
  clock.advance(5_000)
  silence.ended('ETIMEOUT')
  await turn()
  silence.ended(undefined)
  t.equal(silence.holds, false, 'any answer ends it')
})

t.test('the system can answer instead', async (t) => {
  const looked: string[] = []
  const told = ({ name, result, source }: Lookup) => looked.push(`${name} ${result} ${source}`)
  const names = createNames({ resolver: 'system', servers: [] }, new ManualClock(), told)
  t.ok((await names.lookup('localhost')).every((address) => address === '127.0.0.1' || address === '::1'))
  t.same(looked, ['localhost found system'])
  t.equal(names.silent(), false)
  names.close()
})

t.test('a stop gives up what is asked', async (t) => {
  const { server, resolver, failure } = await stand(t, { names: { 'a.test': 'silent' } })
  const asked = failure('a.test')
  await until(() => server.asked.length === 2)
  resolver.close()
  t.equal(await asked, 'EAI_AGAIN')
})

t.test('the files of the system are read as they are written', async (t) => {
  t.same(
    [...parseHosts('127.0.0.1\tlocalhost\n#192.0.2.1 a\n::1 a b\n::1 a')],
    [
      ['localhost', ['127.0.0.1']],
      ['a', ['::1']],
      ['b', ['::1']]
    ]
  )
  t.same(parseSearchRules(''), { domains: [], dots: 1 })
  t.same(parseSearchRules('domain A.test\nnameserver 192.0.2.1\n; search x\noptions ndots:99'), {
    domains: ['a.test'],
    dots: 15
  })
})

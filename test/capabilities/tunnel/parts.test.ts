import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { LookupFunction } from 'node:net'
import t from 'tap'
import { RECONNECTING } from '../../../src/capabilities/tunnel/client/agent.js'
import { connectTarget, readTarget, targetDialer } from '../../../src/capabilities/tunnel/client/visitors.js'
import { Fields, JsonObjectReader } from '../../../src/capabilities/tunnel/protocol/calls.js'
import { readAuthRequest } from '../../../src/capabilities/tunnel/server/agent-calls.js'
import { BindRules, Identities } from '../../../src/capabilities/tunnel/server/authority.js'
import { readAddress, readHost } from '../../../src/capabilities/tunnel/server/binding.js'
import type { ConnectionFacts } from '../../../src/flow/exchange.js'
import { AuthThrottle } from '../../../src/lib/auth-throttle.js'
import { Backoff } from '../../../src/lib/concurrency.js'
import { AbortList } from '../../../src/transport/deadlines.js'
import { proxyHeader } from '../../../src/transport/proxy-protocol.js'
import { ManualClock } from '../../helpers/clock.js'

t.test('what a credential may bind', async (t) => {
  const none = new BindRules([])
  t.ok(none.allowsLabels({ a: 'b' }) && none.allowsDomain('a.b') && none.allowsAddress(undefined), 'no rules')
  const all = new BindRules(['bind:a=b', '*'])
  t.ok(all.allowsLabels({ x: 'y' }) && all.allowsDomain('a.b') && all.allowsAddress(undefined), 'one *')
  const labels = new BindRules(['bind:app=web', 'bind:zone=*', 'bind:*=any'])
  t.ok(labels.allowsLabels({ app: 'web', zone: 'x', other: 'any' }))
  t.notOk(labels.allowsLabels({ app: 'web', other: 'thing' }), 'every label needs a rule')
  t.notOk(labels.allowsDomain('app.example.com'))
  t.notOk(labels.allowsAddress('h:1'))
  const names = new BindRules(['bind:one.example.com', 'bind:*.two.example.com', 'bind:tcp.example.com:4000'])
  t.ok(names.allowsDomain('one.example.com'))
  t.ok(names.allowsDomain('a.b.two.example.com'), 'any depth')
  t.notOk(names.allowsDomain('two.example.com'), 'not the name itself')
  t.notOk(names.allowsDomain('xtwo.example.com'))
  t.notOk(names.allowsLabels({ app: 'web' }))
  t.ok(names.allowsAddress('tcp.example.com:4000'))
  t.notOk(names.allowsAddress('tcp.example.com:4001'))
  t.notOk(names.allowsAddress(undefined), 'any port needs the right to everything')
})

t.test('one object is found however its bytes are cut', async (t) => {
  const object = { text: 'a "quoted" \\ {brace} ]', list: [{ deep: [1, { x: '}' }] }], ünï: '€', empty: {} }
  const bytes = Buffer.from(` \n${JSON.stringify(object)}\n{"next":`)
  for (let cut = 1; cut < bytes.length; cut++) {
    const reader = new JsonObjectReader(1000)
    const first = reader.read(bytes.subarray(0, cut))
    t.same(first === 'more' ? reader.read(bytes.subarray(cut)) : first, object)
  }
  t.equal(new JsonObjectReader(1000).read(Buffer.from('[1]')), 'invalid')
  t.equal(new JsonObjectReader(1000).read(Buffer.from('{"a":}')), 'invalid')
  t.equal(new JsonObjectReader(10).read(Buffer.from('{"a":"0123456789')), 'invalid', 'too long before its end')
  t.equal(new JsonObjectReader(10).read(Buffer.from('{"a":"0123456789"}')), 'invalid', 'too long with its end')
  const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
  t.type(new JsonObjectReader(1_000_000).read(Buffer.from(deep)), 'object', 'depth costs no stack')
})

t.test('fields of a peer', async (t) => {
  const fields = new Fields(
    JSON.parse('{"Name":"x","N":null,"__proto__":{"flag":true},"List":["a",1],"Deep":{"No":0,"Yes":[1]}}')
  )
  t.equal(fields.text('name'), 'x')
  t.equal(fields.text('n'), '')
  t.equal(fields.flag('flag'), false)
  t.same(fields.texts('list'), ['a'])
  t.same([...fields.object('deep').filled()], ['yes'])
  t.equal(fields.number('name'), undefined)
})

t.test('silence that an agent asks for is bounded', async (t) => {
  const silence = (extra: object) =>
    readAuthRequest(new Fields({ Extra: extra }), { ip: '', serverName: undefined }).silence
  t.equal(silence({}), 25_000)
  t.equal(silence({ HeartbeatInterval: 20e9, HeartbeatTolerance: 10e9 }), 30_000)
  t.equal(silence({ HeartbeatInterval: -1, HeartbeatTolerance: 15e9 }), 25_000)
  t.equal(silence({ HeartbeatInterval: 1, HeartbeatTolerance: 1 }), 5000)
  t.equal(silence({ HeartbeatInterval: 9.2e18 }), 300_000)
})

t.test('identities', async (t) => {
  const secret = randomBytes(32)
  const one = new Identities(secret)
  const same = new Identities(secret)
  const other = new Identities(randomBytes(32))
  const cookie = one.cookie('ts_a', 'cr_a')
  t.ok(same.ownsSession(cookie, 'ts_a', 'cr_a'))
  t.notOk(same.ownsSession(cookie, 'ts_a', 'cr_b'), 'another credential')
  t.notOk(same.ownsSession(cookie, 'ts_b', 'cr_a'), 'another session')
  t.notOk(other.ownsSession(cookie, 'ts_a', 'cr_a'), 'another secret')
  const id = one.labelledId('ts_a', { a: '1', b: '2' }, 'm', 'f', 0)
  t.match(id, /^tn_[0-9A-Za-z]{27}$/)
  t.equal(same.labelledId('ts_a', { b: '2', a: '1' }, 'm', 'f', 0), id)
  const others = [
    one.labelledId('ts_a', { a: '1', b: '2' }, 'm', 'f', 1),
    one.labelledId('ts_b', { a: '1', b: '2' }, 'm', 'f', 0),
    one.labelledId('ts_a', { a: '1b', '': '2' }, 'm', 'f', 0)
  ]
  t.equal(new Set([id, ...others]).size, 4)
  const claim = { id: 'tn_x', at: 'a.example.com', made: true }
  const token = one.endpointToken(claim, 'cr_a')
  t.same(same.readEndpointToken(token, 'cr_a'), claim)
  for (const bad of ['', '.', 'x.y', token.slice(0, -1), `${token}x`, `A${token}`]) {
    t.equal(one.readEndpointToken(bad, 'cr_a'), undefined, bad)
  }
  t.equal(one.readEndpointToken(token, 'cr_b'), undefined)
})

t.test('refused attempts are counted by address and token', async (t) => {
  const clock = new ManualClock()
  const throttle = new AuthThrottle(clock)
  for (let time = 0; time < 10; time++) throttle.refused('192.0.2.1', 'bad')
  t.equal(throttle.wait('192.0.2.1', 'bad'), 60)
  t.equal(throttle.wait('192.0.2.1', 'other'), 0)
  t.equal(throttle.wait('192.0.2.2', 'bad'), 0)
  for (let time = 0; time < 90; time++) throttle.refused('192.0.2.1', `guess ${time}`)
  t.ok(throttle.crowded('192.0.2.1', 'new'), 'who guesses waits with every token')
  t.equal(throttle.wait('192.0.2.1', 'new'), 0, 'but that is not held against the token')
  t.notOk(throttle.crowded('192.0.2.2', 'new'))
  throttle.accepted('192.0.2.1', 'proven')
  t.notOk(throttle.crowded('192.0.2.1', 'proven'), 'who was let in before comes back')
  t.ok(throttle.crowded('192.0.2.1', 'new'))
  throttle.refused('192.0.2.1', 'proven')
  t.ok(throttle.crowded('192.0.2.1', 'proven'), 'unless the token is good no more')
  clock.advance(59_500)
  t.equal(throttle.wait('192.0.2.1', 'bad'), 1)
  clock.advance(500)
  throttle.sweep()
  t.equal(throttle.wait('192.0.2.1', 'bad'), 0)
  t.notOk(throttle.crowded('192.0.2.1', 'new'))
})

t.test('PROXY headers', async (t) => {
  const from = { address: '::ffff:203.0.113.9', port: 51_234 }
  const to = { address: '203.0.113.1', port: 443 }
  t.equal(String(proxyHeader(1, from, to)), 'PROXY TCP4 203.0.113.9 203.0.113.1 51234 443\r\n')
  t.equal(
    proxyHeader(2, from, to).toString('hex'),
    '0d0a0d0a000d0a515549540a2111000ccb007109cb007101c82201bb',
    'twelve bytes of signature, version and command, family, length, addresses, ports'
  )
  const six = { address: '2001:db8::1', port: 1 }
  t.equal(
    String(proxyHeader(1, six, { address: '2001:db8::2', port: 2 })),
    'PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n'
  )
  t.match(proxyHeader(2, six, six).toString('hex'), /^0d0a0d0a000d0a515549540a21210024(20010db8(00){11}01){2}00010001$/)
  t.equal(String(proxyHeader(1, six, to)), 'PROXY UNKNOWN\r\n')
  t.equal(proxyHeader(2, { address: '', port: 0 }, to).toString('hex'), '0d0a0d0a000d0a515549540a20000000')
})

t.test('the name of a target is looked up by whom the agent says', async (t) => {
  const asked: string[] = []
  const lookup: LookupFunction = (host, _options, done) => {
    asked.push(host)
    done(Object.assign(new Error('none'), { code: 'ENOTFOUND' }), '', 0)
  }
  for (const text of ['tcp://box.test:1', 'tls://box.test:1']) {
    const target = readTarget(text)
    if (target === undefined || target.kind === 'unix') throw new Error('no target')
    const { socket } = connectTarget({ ...target, lookup })
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
    t.equal(error.code, 'ENOTFOUND')
    const why = { client: {} as ConnectionFacts, deadline: 0, signal: new AbortList() }
    await t.rejects(targetDialer({ ...target, lookup }).open(why), { failure: 'dial-refused', message: 'ENOTFOUND' })
  }
  t.same(asked, ['box.test', 'box.test', 'box.test', 'box.test'])
})

t.test('names, addresses and targets', async (t) => {
  t.equal(readHost('https://App.Example.com/'), 'app.example.com')
  t.equal(readHost('app.example.com.'), 'app.example.com')
  t.equal(readHost('my_app.example.com'), 'my_app.example.com')
  for (const bad of ['localhost', '10.0.0.1', '*.a.com', 'a..b', '-a.b', 'a.b/c', '']) {
    t.equal(readHost(bad), undefined, bad)
  }
  t.same(readAddress('tcp://h.example.com:80'), { host: 'h.example.com', port: 80 })
  t.equal(readAddress('h.example.com'), undefined)
  t.same(readTarget('3000'), { kind: 'tcp', host: '127.0.0.1', port: 3000 })
  t.same(readTarget('http://localhost'), { kind: 'tcp', host: 'localhost', port: 80 })
  t.same(readTarget('https://[::1]:8443', false), { kind: 'tls', host: '::1', port: 8443, verify: false })
  t.same(readTarget('unix:/run/app.sock'), { kind: 'unix', path: '/run/app.sock' })
  for (const bad of ['', 'localhost', '99999', 'ftp://a:1', 'http://a:1/path', 'http://u@a:1', 'unix:app']) {
    t.equal(readTarget(bad), undefined, bad)
  }
})

t.test('waits double up to 15 s and differ', async (t) => {
  const longest = new Backoff(RECONNECTING, () => 0)
  t.same(
    Array.from({ length: 8 }, () => longest.next()),
    [500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]
  )
  longest.reset()
  t.equal(longest.next(), 500)
  const shortest = new Backoff(RECONNECTING, () => 0.999)
  t.ok(shortest.next() > 250)
})

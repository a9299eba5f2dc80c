import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'
import { configFor, keyServer, type Signer, sign, signer } from './issuer.js'

const ONE = signer('RS256', 'one')
const TWO = signer('RS256', 'two')
const PRIVATE = ONE.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
const FRESH = 15 * 60_000

function setUp(sources: object, kit = new Kit()) {
  const phase = kit.waiting([['jwt-validation', configFor(sources)]])
  return {
    kit,
    with: async (key: Signer, claims: object = {}) => {
      const exp = Math.floor(kit.clock.wall() / 1_000) + 7_200
      const token = await sign(key, { now: kit.clock.wall(), claims: { exp, ...claims } })
      return outcomeOf(await phase(makeFlow({ headers: ['authorization', `Bearer ${token}`] })))
    },
    token: async (token: string) => outcomeOf(await phase(makeFlow({ headers: ['authorization', `Bearer ${token}`] })))
  }
}

t.test('a new key is taken up when a token names it', async (t) => {
  const server = await keyServer(t, ONE)
  const stand = setUp({ additional_jkus: [server.url] })
  t.equal(await stand.with(ONE), 'goes on')
  server.serve(ONE, TWO)
  t.equal(await stand.with(TWO), '401 JWT_KEY_UNKNOWN', 'the last load is too near')
  stand.kit.clock.now += 10_000
  t.equal(await stand.with(TWO), 'goes on')
  t.equal(server.requests, 2)
  server.serve(TWO)
  stand.kit.clock.now += FRESH + 120_000
  t.equal(await stand.with(ONE), '401 JWT_KEY_UNKNOWN')
  t.equal(await stand.with(TWO), 'goes on')
})

t.test('a flood of made-up keys costs one load in ten seconds', async (t) => {
  const server = await keyServer(t, ONE)
  const stand = setUp({ additional_jkus: [server.url] })
  t.equal(await stand.with(ONE), 'goes on')
  const forged = await Promise.all(
    Array.from({ length: 50 }, (_, i) => sign(ONE, { now: stand.kit.clock.wall(), header: { kid: `made-up-${i}` } }))
  )
  for (let second = 0; second < 60; second++) {
    stand.kit.clock.now += 1_000
    const outcomes = await Promise.all(forged.slice(0, 10).map((token) => stand.token(token)))
    if (outcomes.some((outcome) => outcome !== '401 JWT_KEY_UNKNOWN')) t.fail(outcomes.join())
  }
  t.equal(server.requests, 7)
  await Promise.all(forged.map((token) => stand.token(token)))
  t.equal(server.requests, 7)
})

t.test('a token without a name is tried with new keys too', async (t) => {
  const server = await keyServer(t, ONE)
  const stand = setUp({ additional_jkus: [server.url] })
  const nameless = { ...TWO, kid: undefined }
  t.equal(await stand.with(nameless), '401 JWT_SIGNATURE')
  server.serve(ONE, TWO)
  stand.kit.clock.now += 10_000
  t.equal(await stand.with(nameless), 'goes on')
  const strict = new Kit().waiting([
    [
      'jwt-validation',
      {
        ...configFor({}),
        jws: {
          allowed_algorithms: ['RS256'],
          keys: { sources: { additional_jkus: [server.url] }, identification: { token_claims: ['kid'] } }
        }
      }
    ]
  ])
  const token = await sign(nameless)
  t.equal(outcomeOf(await strict(makeFlow({ headers: ['authorization', `Bearer ${token}`] }))), '401 JWT_KEY_UNKNOWN')
})

t.test('a first load is shared by all who wait', async (t) => {
  const server = await keyServer(t, ONE)
  const stand = setUp({ additional_jkus: [server.url] })
  const outcomes = await Promise.all(Array.from({ length: 40 }, (_, i) => stand.with(ONE, { jti: i })))
  t.same([...new Set(outcomes)], ['goes on'])
  t.equal(server.requests, 1)
})

t.test('a server that is down, or answers garbage', async (t) => {
  const server = await keyServer(t, ONE)
  const answers: readonly (readonly [string, typeof server.answer])[] = [
    ['500', (_, response) => response.writeHead(500).end('{}')],
    ['404', (_, response) => response.writeHead(404).end('{"keys":[]}')],
    ['a redirect', (_, response) => response.writeHead(302, { location: server.url }).end()],
    ['HTML', (_, response) => response.end('<html>')],
    ['JSON of another kind', (_, response) => response.end('{"error":"no"}')],
    ['no end', (request) => request.socket.destroy()],
    ['too much', (_, response) => response.end(`{"keys":[]}${' '.repeat(600_000)}`)]
  ]
  const known = setUp({ additional_jkus: [server.url] })
  t.equal(await known.with(ONE), 'goes on')
  const healthy = server.answer
  for (const [name, answer] of answers) {
    server.answer = answer
    const fresh = setUp({ additional_jkus: [`${server.url}?key=hidden`] })
    t.equal(await fresh.with(ONE), '503 JWT_KEYS_UNAVAILABLE', name)
    t.match(fresh.kit.logged.join('\n'), /keys of tokens could not be loaded.*reason/, name)
    t.match(fresh.kit.logged.join('\n'), `"source":"${new URL(server.url).origin}"`, name)
    t.notMatch(fresh.kit.logged.join('\n'), /eyJ|jwks\.json|hidden/, name)
    known.kit.clock.now += FRESH + 120_000
    t.equal(await known.with(ONE), 'goes on', `known keys serve: ${name}`)
    t.equal(await known.with(TWO), '503 JWT_KEYS_UNAVAILABLE', `the key may be a new one: ${name}`)
    fresh.kit.clock.now += 2_001
    server.answer = healthy
    t.equal(await fresh.with(ONE), 'goes on', `healed: ${name}`)
  }
})

t.test('one source that is down does not stop the keys of another', async (t) => {
  const down = await keyServer(t)
  down.answer = (request) => request.socket.destroy()
  const server = await keyServer(t, ONE)
  const stand = setUp({ additional_jkus: [down.url, server.url] })
  t.equal(await stand.with(ONE), 'goes on')
  t.equal(await stand.with({ ...TWO, kid: 'one' }), '401 JWT_SIGNATURE')
  t.equal(await stand.with(TWO), '503 JWT_KEYS_UNAVAILABLE')
})

t.test('a server that hangs: who has known keys passes at once, others hear of it in five seconds', async (t) => {
  const server = await keyServer(t, ONE)
  const known = setUp({ additional_jkus: [server.url] })
  t.equal(await known.with(ONE), 'goes on')
  server.answer = () => undefined
  known.kit.clock.now += FRESH + 1_000
  const fresh = setUp({ additional_jkus: [server.url] })
  const began = performance.now()
  const waiting = Promise.all(Array.from({ length: 20 }, () => fresh.with(ONE)))
  t.equal(await known.with(ONE), 'goes on')
  t.ok(performance.now() - began < 2_000)
  t.same([...new Set(await waiting)], ['503 JWT_KEYS_UNAVAILABLE'])
  const took = performance.now() - began
  t.ok(took > 4_500 && took < 9_000, `${took} ms`)
  const again = performance.now()
  t.equal(await fresh.with(ONE), '503 JWT_KEYS_UNAVAILABLE')
  t.ok(performance.now() - again < 1_000, 'and the next one at once')
  t.equal(server.requests, 3)
})

t.test('a secret that a server hands out is none', async (t) => {
  const secret = signer('HS256', 'shared')
  const server = await keyServer(t, secret, ONE)
  const kit = new Kit()
  const config = configFor({ additional_jkus: [server.url] }, { algorithms: ['HS256', 'RS256'] })
  const phase = kit.waiting([['jwt-validation', config]])
  const ask = async (key: Signer) =>
    outcomeOf(
      await phase(makeFlow({ headers: ['authorization', `Bearer ${await sign(key, { now: kit.clock.wall() })}`] }))
    )
  t.equal(await ask(secret), '401 JWT_KEY_UNKNOWN')
  t.equal(await ask(ONE), 'goes on')
})

t.test('an address that is not public is not asked', async (t) => {
  const server = await keyServer(t, ONE)
  const stand = setUp({ additional_jkus: [server.url] }, new Kit('none', { allowPrivate: false }))
  t.equal(await stand.with(ONE), '503 JWT_KEYS_UNAVAILABLE')
  t.equal(server.requests, 0)
})

t.test('what is no file with keys', async (t) => {
  const folder = t.testdir({ empty: '', text: 'nothing', large: ' '.repeat(600_000), private: PRIVATE, fifo: {} })
  execFileSync('mkfifo', [join(folder, 'fifo', 'pipe')])
  const paths = ['empty', 'text', 'large', 'private', 'fifo/pipe', 'fifo', 'absent'].map((name) => join(folder, name))
  for (const path of [...paths, '/dev/zero', '/proc/self/environ']) {
    const stand = setUp({ files: [path] })
    t.equal(await stand.with(ONE), '503 JWT_KEYS_UNAVAILABLE', path)
    t.notMatch(stand.kit.logged.join('\n'), /nothing|PRIVATE|PATH=/, path)
  }
})

t.test('many places of one source are kept within bounds', async (t) => {
  const server = await keyServer(t, ONE)
  const kit = new Kit()
  const config = configFor({ additional_jkus: [`${server.url}?for=\${getReqHeader('x-tenant')[0]}`] })
  const phase = kit.waiting([['jwt-validation', config]])
  const token = await sign(ONE, { now: kit.clock.wall() })
  const ask = async (tenant: string) =>
    outcomeOf(await phase(makeFlow({ headers: ['authorization', `Bearer ${token}`, 'x-tenant', tenant] })))
  for (let i = 0; i < 80; i++) t.equal(await ask(`t${i}`), 'goes on')
  t.equal(server.requests, 80)
  t.equal(await ask('t79'), 'goes on')
  t.equal(server.requests, 80)
  t.equal(await ask('t0'), 'goes on')
  t.equal(server.requests, 81, 'the oldest were forgotten')
  t.equal(
    outcomeOf(await phase(makeFlow({ headers: ['authorization', `Bearer ${token}`] }))),
    '500 POLICY_EXPRESSION',
    'a place without a value fails closed'
  )
})

import { createSecretKey, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { readKeySet, secretKey } from '../../../src/features/jwt/jwks.js'
import { freshness } from '../../../src/features/jwt/jwks-cache.js'
import { readToken } from '../../../src/features/jwt/token.js'
import { jwkOf, signer } from './issuer.js'

const RS = signer('RS256', 'one')
const ES = signer('ES256', 'two')
const read = (data: unknown, secrets = false) => readKeySet(JSON.stringify(data), { secrets })
const algorithms = (data: unknown, secrets = false) => read(data, secrets)?.keys.map((key) => [...key.algorithms])
const without = (jwk: Record<string, unknown>, ...names: string[]) =>
  Object.fromEntries(Object.entries(jwk).filter(([name]) => !names.includes(name)))

t.test('the kind of a key says what it may check', async (t) => {
  const rsa = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
  t.same(algorithms(without(jwkOf(RS), 'alg')), [rsa])
  t.same(algorithms(jwkOf(RS)), [['RS256']])
  t.same(algorithms({ ...jwkOf(RS), alg: 'HS256' }), [], 'what the key cannot do')
  t.same(algorithms({ ...jwkOf(RS), alg: 'RSA-OAEP' }), [])
  t.same(algorithms(without(jwkOf(ES), 'alg')), [['ES256']])
  t.same(algorithms(without(jwkOf(signer('ES384')), 'alg')), [['ES384']])
  t.same(algorithms(without(jwkOf(signer('ES512')), 'alg')), [['ES512']])
  t.same(algorithms(without(jwkOf(signer('EdDSA')), 'alg')), [['EdDSA', 'Ed25519']])
  const secret = (bytes: number) => ({ kty: 'oct', k: Buffer.alloc(bytes, 1).toString('base64url') })
  t.same(algorithms(secret(64), true), [['HS256', 'HS384', 'HS512']])
  t.same(algorithms(secret(32), true), [['HS256']])
  t.same(algorithms(secret(31), true), [])
  t.same(algorithms(secret(64)), [], 'no secret comes from where everybody can read it')
})

t.test('what cannot check signatures is left out, the rest of the set serves', async (t) => {
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })
  const x25519 = generateKeyPairSync('x25519').publicKey.export({ format: 'jwk' })
  const koblitz = generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey.export({ format: 'jwk' })
  const unusable = [
    small,
    x25519,
    koblitz,
    RS.privateKey.export({ format: 'jwk' }),
    ES.privateKey.export({ format: 'jwk' }),
    { ...jwkOf(RS), use: 'enc' },
    { ...jwkOf(RS), key_ops: ['encrypt'] },
    { ...jwkOf(RS), key_ops: 'verify' },
    { ...jwkOf(RS), kid: 7.5 },
    { ...jwkOf(RS), kid: 1.5 },
    { ...jwkOf(RS), kid: null },
    { ...jwkOf(RS), alg: null },
    { ...jwkOf(RS), n: '' },
    { ...jwkOf(ES), x: jwkOf(ES).y },
    { kty: 'future', kid: 'one' },
    {},
    null,
    'key',
    7
  ]
  for (const key of unusable) t.same(read({ keys: [key] })?.keys, [], JSON.stringify(key)?.slice(0, 60))
  const set = read({ keys: [...unusable, jwkOf(RS), { ...jwkOf(ES), key_ops: ['sign', 'verify'] }] })
  t.same(
    set?.keys.map(({ kid }) => kid),
    ['one', 'two']
  )
})

t.test('what is no set of keys', async (t) => {
  const many = { keys: Array.from({ length: 1001 }, () => jwkOf(ES)) }
  for (const data of [null, [], 7, 'x', {}, { keys: {} }, { keys: null }, many]) t.equal(read(data), undefined)
  for (const text of ['', 'nothing', '<html>', '{"keys":[', '-----BEGIN PUBLIC KEY-----']) {
    t.equal(readKeySet(text, { secrets: true }), undefined, text)
  }
})

t.test('a set may be long, a list alone, begin with a byte order mark and name keys by numbers', async (t) => {
  const many = Array.from({ length: 1000 }, (_, kid) => ({ ...jwkOf(ES), kid }))
  t.equal(read({ keys: many })?.keys.length, 1000)
  t.equal(read([jwkOf(ES), jwkOf(RS)])?.keys.length, 2)
  t.equal(readKeySet(`\ufeff${JSON.stringify({ keys: [jwkOf(ES)] })}`, { secrets: false })?.keys.length, 1)
  t.same(
    read([{ ...jwkOf(ES), kid: 7 }])?.keys.map(({ kid }) => kid),
    ['7']
  )
  const digits = '1234567890123456789'
  const text = JSON.stringify([{ ...jwkOf(ES), kid: 'K' }]).replace('"K"', digits)
  t.equal(readKeySet(text, { secrets: false })?.keys[0]?.kid, digits, 'all digits of a number')
  const part = (json: string) => Buffer.from(json).toString('base64url')
  const token = readToken(`${part(`{"alg":"ES256","kid":${digits}}`)}.${part('{"sub":"a"}')}.${part('signature')}`)
  t.match(token, { kid: digits }, 'as in the token')
})

t.test('PEM: public keys and certificates, never private keys', async (t) => {
  const pem = RS.publicKey.export({ type: 'spki', format: 'pem' }) as string
  const other = ES.publicKey.export({ type: 'spki', format: 'pem' }) as string
  t.equal(readKeySet(`\n${pem}${other}`, { secrets: false })?.keys.length, 2)
  const old = RS.publicKey.export({ type: 'pkcs1', format: 'pem' }) as string
  t.equal(readKeySet(old, { secrets: false })?.keys.length, 1)
  const hidden = RS.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  for (const text of [hidden, pem + hidden, RS.privateKey.export({ type: 'pkcs1', format: 'pem' }) as string]) {
    t.equal(readKeySet(text, { secrets: true }), undefined)
  }
})

t.test('a key has one identity', async (t) => {
  const id = (jwk: object) => read(jwk)?.keys[0]?.id
  t.equal(id(jwkOf(RS)), id({ ...jwkOf(RS), x5t: 'anything' }))
  const others = [
    { ...jwkOf(RS), kid: 'two' },
    without(jwkOf(RS), 'alg'),
    without(jwkOf(RS), 'kid'),
    jwkOf(signer('RS256', 'one'))
  ]
  t.equal(new Set([jwkOf(RS), ...others].map(id)).size, 5)
  const key = secretKey(Buffer.alloc(32, 1), {})
  t.ok(key?.key.equals(createSecretKey(Buffer.alloc(32, 1))))
  t.equal(secretKey(new Uint8Array(0), {}), undefined)
})

t.test('how long an answer is fresh', async (t) => {
  const minutes = (...headers: string[]) => freshness(headers) / 60_000
  t.equal(minutes(), 15)
  t.equal(minutes('Cache-Control', 'public, max-age=1200, must-revalidate'), 20)
  t.equal(minutes('cache-control', 'public', 'Cache-Control', 'max-age="1200"'), 20)
  t.equal(minutes('cache-control', 'max-age=1200', 'age', '300'), 15)
  t.equal(minutes('cache-control', 'max-age=1200', 'age', 'old'), 20)
  t.equal(minutes('cache-control', 's-max-age=5'), 15)
  t.equal(minutes('cache-control', 'max-age=5'), 1)
  t.equal(minutes('cache-control', 'max-age=0'), 1)
  t.equal(minutes('cache-control', 'max-age=9999999999'), 60)
  t.equal(minutes('cache-control', 'max-age=1200', 'age', '99999'), 1)
  t.equal(minutes('cache-control', 'no-store, max-age=1200'), 1)
  t.equal(minutes('cache-control', 'no-cache="set-cookie"'), 1)
})

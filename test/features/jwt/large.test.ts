import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { keySetIn, readKeySet } from '../../../src/features/jwt/jwks.js'
import { Slices } from '../../../src/lib/slices.js'
import { makeFlow } from '../../helpers/flow.js'
import { leastHold, turnsOf } from '../../helpers/loop-hold.js'
import { Kit, outcomeOf } from '../kit.js'
import { configFor, jwkOf, sign, signer } from './issuer.js'

const MIB = 1024 * 1024
const ES = signer('ES256', 'one')

t.test('a token in a long body is found in slices', async (t) => {
  const kit = new Kit()
  const phase = kit.waiting([
    [
      'jwt-validation',
      {
        ...configFor({ inline: [jwkOf(ES)] }, { algorithms: ['ES256'] }),
        http: { tokens: [{ type: 'jwt', method: 'body', name: 'Token' }] }
      }
    ]
  ])
  const token = await sign(ES, { now: kit.clock.wall() })
  const room = MIB - token.length - 100
  const nested = '[[[[[]]]]],'.repeat(Math.floor(room / 11))
  const names = Array.from({ length: 60_000 }, (_, i) => `"k${i}":1`).join(',')
  const fields = 'a=b&'.repeat(Math.floor(room / 4))
  const JSON_TYPE = 'application/json'
  const FORM = 'application/x-www-form-urlencoded'
  const cases = [
    [JSON_TYPE, `{"a":[${nested}1],"Token":"${token}"}`, 'goes on'],
    [JSON_TYPE, `{"a":[${nested}1],"Token":["${token}"]}`, '401 JWT_MALFORMED'],
    [JSON_TYPE, `{${names},"token":"${token}"}`, 'goes on'],
    [JSON_TYPE, `{${names},"token":"${token}","Token":"${token}"}`, '401 JWT_REPEATED'],
    [JSON_TYPE, `{${names},"token":"${token}","k7":1}`, 'goes on'],
    [JSON_TYPE, `{${names},"token":"${token}","token":1}`, '401 JWT_BODY_JSON'],
    [JSON_TYPE, `{${names},"tokens":"${token}"}`, '401 JWT_MISSING'],
    [FORM, `${fields}token=${token}`, 'goes on'],
    [FORM, `${fields}token=${token}&TOKEN=x`, '401 JWT_REPEATED']
  ] as const
  for (const [type, body, outcome] of cases) {
    const what = `${type} that ends with ${body.slice(-20)}`
    const flow = () => makeFlow({ method: 'POST', body: Buffer.from(body), headers: ['content-type', type] })
    const { value, turns, longest, took } = await leastHold(async () => {
      const one = flow()
      const found = outcomeOf(await phase(one))
      one.end()
      return found
    })
    t.equal(value, outcome, what)
    t.ok(longest < 40, `${what}: the loop was held for ${longest.toFixed(1)} ms`)
    t.ok(turns >= turnsOf({ took }), `${what}: ${turns} turns in ${took.toFixed(1)} ms`)
  }
})

t.test('a large set of keys is read in slices', async (t) => {
  const curve = () => generateKeyPairSync('ec', { namedCurve: 'secp521r1' }).publicKey
  const [one, other] = [curve(), curve()]
  const jwk = { ...one.export({ format: 'jwk' }) }
  const set = JSON.stringify({ keys: Array.from({ length: 100 }, (_, i) => ({ ...jwk, kid: `k${i}` })) })
  const pem = [one, other]
    .map((key) => key.export({ type: 'spki', format: 'pem' }))
    .join('')
    .repeat(50)
  for (const text of [set, pem]) {
    const { value, turns, longest, took } = await leastHold(() => new Slices().run(keySetIn(text, { secrets: false })))
    t.equal(value?.keys.length, 100)
    t.ok(turns >= turnsOf({ took }), `${turns} turns in ${took.toFixed(1)} ms`)
    t.ok(longest < 60, `the loop was held for ${longest.toFixed(1)} ms`)
  }
  t.equal(readKeySet(pem.repeat(11), { secrets: false }), undefined, 'too many')
})

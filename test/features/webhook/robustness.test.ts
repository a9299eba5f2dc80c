import t from 'tap'
import { providers } from '../../../src/features/webhook/providers.js'
import { numbers } from '../../helpers/numbers.js'
import { type Delivery, inspect } from './inspecting.js'
import { senders } from './signing.js'

const AT = Date.UTC(2026, 0, 2, 3, 4, 5)
const TIME = String(AT / 1000)
const PIECES = [
  '',
  ' ',
  ',',
  '=',
  '.',
  't=',
  'v1=',
  'v1,',
  'sha256=',
  'sign=',
  'env=',
  '%',
  '%zz',
  '\u00ff',
  'a'.repeat(5_000),
  TIME,
  '-1',
  '1e308',
  '2026-01-02T03:04:05Z',
  '9999-99-99T99:99:99Z',
  'AAAA',
  'MEUCIQ==',
  'MAYCAQACAQA=',
  'Basic',
  'Basic ====',
  'x-contentful-signed-headers,x-contentful-timestamp',
  'v2',
  '__proto__'
]
const BODIES = [
  '',
  '{',
  '{}',
  '[]',
  'null',
  '"',
  '{"__proto__":{"Type":"Notification"},"signature":{"timestamp":{},"token":null}}',
  `{"signature":{"timestamp":"${TIME}","token":"x","signature":"x"}}`,
  '{"Type":"constructor","Signature":"AAAA","SignatureVersion":"toString","SigningCertURL":"x"}',
  '{"event":"endpoint.url_validation","payload":[]}',
  '\u0000\u00ff\ud800',
  '%&=&=%ff&a[]=1&a[]=2',
  '{"a":'.repeat(5_000)
]
const TARGETS = ['/', '/?', '/%ff?%', '/a?b?c?d', '/?bodySHA256=', '/?crc_token=%ff', '/?challenge=%00', '/%2e%2e//x']

t.test('whatever a request holds, it is looked at, refused and nothing throws', async (t) => {
  const next = numbers(5)
  const one = <T>(list: readonly T[]): T => list[next(list.length)] as T
  let looks = 0
  for (const name of providers.keys()) {
    const fields = senders.filter(({ provider }) => provider === name).flatMap((sender) => sender.fields)
    const secret = senders.find(({ provider }) => provider === name)?.secret ?? ''
    for (let i = 0; i < 60; i++) {
      const headers = fields.flatMap((field) => [field, one(PIECES) + one(PIECES) + one(PIECES)])
      const type = one([
        'application/json',
        'application/x-www-form-urlencoded',
        'APPLICATION/X-WWW-FORM-URLENCODED;',
        ''
      ])
      const delivery: Delivery = {
        method: one(['GET', 'POST', 'PUT', 'HEAD']),
        url: `https://h.test${one(TARGETS)}`,
        headers: ['Content-Type', type, ...headers],
        body: Buffer.from(one(BODIES), 'utf8')
      }
      const found = await inspect(name, secret, delivery, AT)
      if (found === 'verified') t.fail(`${name}: ${JSON.stringify(delivery.headers).slice(0, 300)}`)
      looks++
    }
  }
  t.ok(looks > 4_000)
})

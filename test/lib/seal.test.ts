import { randomBytes } from 'node:crypto'
import t from 'tap'
import { newSealKey, parseSealKey, Sealer, sealedBy, sealKey } from '../../src/lib/seal.js'

const fresh = () => sealKey(randomBytes(32))

t.test('what is sealed opens again, under its owner only', async (t) => {
  const sealer = new Sealer(fresh())
  for (const length of [0, 1, 16, 70_000]) {
    const plain = randomBytes(length)
    const sealed = sealer.seal(plain, 'secret/1')
    t.same(Buffer.from(sealer.open(sealed, 'secret/1')), plain)
    t.throws(() => sealer.open(sealed, 'secret/2'), { code: 'SEAL_BROKEN' })
    if (length > 15) t.equal(Buffer.from(sealed).includes(plain), false)
  }
  const twice = [sealer.seal(Buffer.from('same'), 'a'), sealer.seal(Buffer.from('same'), 'a')] as const
  t.notSame(twice[0], twice[1], 'equal values do not look alike')
})

t.test('every changed bit and every cut is found', async (t) => {
  const sealer = new Sealer(fresh())
  const sealed = Buffer.from(sealer.seal(Buffer.from('value'), 'owner'))
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const changed = Buffer.from(sealed)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    t.throws(() => sealer.open(changed, 'owner'), { code: /^SEAL_(BROKEN|KEY_UNKNOWN)$/ }, `bit ${bit}`)
  }
  for (let length = 0; length < sealed.length; length++) {
    t.throws(() => sealer.open(sealed.subarray(0, length), 'owner'), { code: 'SEAL_BROKEN' }, `${length} bytes`)
  }
})

t.test('after a rotation the old key still opens and the new one seals', async (t) => {
  const [old, current] = [fresh(), fresh()]
  const sealed = new Sealer(old).seal(Buffer.from('value'), 'owner')
  const rotated = new Sealer(current, [old])
  t.equal(Buffer.from(rotated.open(sealed, 'owner')).toString(), 'value')
  t.equal(sealedBy(sealed), old.id)
  t.equal(sealedBy(rotated.seal(Buffer.from('value'), 'owner')), current.id)
  t.throws(() => new Sealer(current).open(sealed, 'owner'), { code: 'SEAL_KEY_UNKNOWN' })
})

t.test('keys are read from hexadecimal digits and base64, and from nothing else', async (t) => {
  const bytes = randomBytes(32)
  for (const text of [bytes.toString('hex'), ` ${bytes.toString('base64')}\n`, bytes.toString('base64url')]) {
    t.same(parseSealKey(text), sealKey(bytes))
  }
  t.equal(parseSealKey(newSealKey()).bytes.length, 32)
  for (const text of ['', 'short', bytes.toString('hex').slice(2), `${bytes.toString('base64')}AA`]) {
    t.throws(() => parseSealKey(text), { code: 'SEAL_KEY_INVALID' })
  }
  t.throws(() => sealKey(randomBytes(16)), { code: 'SEAL_KEY_INVALID' })
  t.equal(sealKey(bytes).id.includes(bytes.toString('hex').slice(0, 8)), false)
})

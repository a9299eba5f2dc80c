import t from 'tap'
import { newId } from '../../src/lib/id.js'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const EPOCH = 1_400_000_000

function numberOf(id: string): bigint {
  return [...id.slice(id.indexOf('_') + 1)].reduce((sum, digit) => sum * 62n + BigInt(DIGITS.indexOf(digit)), 0n)
}

t.test('an id is a KSUID: its time in seconds before 128 random bits', async (t) => {
  const seen = new Set<bigint>()
  let ones = 0n
  for (let n = 0; n < 5_000; n++) {
    const seconds = (n * 7_654_321) % 2 ** 32
    const id = newId('ep', (EPOCH + seconds) * 1_000 + (n % 1_000))
    if (!/^ep_[0-9A-Za-z]{27}$/.test(id)) t.fail(id)
    const number = numberOf(id)
    if (number >> 128n !== BigInt(seconds)) t.fail(`${id} does not tell ${seconds}`)
    const random = number & (2n ** 128n - 1n)
    seen.add(random)
    ones |= random
  }
  t.equal(seen.size, 5_000, 'no two are alike')
  t.equal(ones, 2n ** 128n - 1n, 'every bit is used')
})

t.test('ids of later seconds sort behind', async (t) => {
  const ids = Array.from({ length: 1_000 }, (_, n) => newId('ev', (EPOCH + n * 4_000_000) * 1_000))
  t.same([...ids].sort(), ids)
})

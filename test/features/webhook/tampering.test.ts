import t from 'tap'
import { providers } from '../../../src/features/webhook/providers.js'
import { numbers } from '../../helpers/numbers.js'
import { type Delivery, fieldOf, inspect, withField, withoutField } from './inspecting.js'
import { type Sender, senders } from './signing.js'

const AT = Date.UTC(2026, 0, 2, 3, 4, 5)
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

function another(character: string | undefined, next: (bound: number) => number): string {
  for (;;) {
    const chosen = ALPHABET[next(ALPHABET.length)] as string
    if (chosen !== character) return chosen
  }
}

function tamperedBody(sender: Sender, { body }: Delivery, at: number, next: (bound: number) => number): Buffer {
  const bytes = Buffer.from(body)
  if (sender.covers === 'fields') bytes[at] = another(String.fromCharCode(bytes[at] as number), next).charCodeAt(0)
  else bytes[at] = ((bytes[at] as number) + 1 + next(255)) & 0xff
  return bytes
}

const look = (sender: Sender, delivery: Delivery, at = AT) => inspect(sender.provider, sender.secret, delivery, at)
const nameOf = (sender: Sender, i: number) => `${sender.provider} #${i}`

t.test('there is a sender for every provider but sns', async (t) => {
  const names = [...new Set(senders.map(({ provider }) => provider))].sort()
  t.same(names, [...providers.keys()].filter((name) => name !== 'sns').sort())
  t.equal(providers.size, 69)
})

t.test('what senders sign passes', async (t) => {
  for (const [i, sender] of senders.entries())
    t.equal(await look(sender, sender.sign(AT)), 'verified', nameOf(sender, i))
})

t.test('no changed byte of a body passes', async (t) => {
  const next = numbers(11)
  let tried = 0
  for (const [i, sender] of senders.entries()) {
    if (sender.covers === 'nothing') continue
    const delivery = sender.sign(AT)
    const { length } = delivery.body
    for (let at = 0; at < length; at++) {
      const found = await look(sender, { ...delivery, body: tamperedBody(sender, delivery, at, next) })
      if (found === 'verified') t.fail(`${nameOf(sender, i)}: byte ${at}`)
      tried++
    }
    for (const body of [Buffer.alloc(0), delivery.body.subarray(1), delivery.body.subarray(0, length - 1)]) {
      if ((await look(sender, { ...delivery, body })) === 'verified')
        t.fail(`${nameOf(sender, i)}: ${body.length} bytes`)
    }
    const longer = { ...delivery, body: Buffer.concat([delivery.body, Buffer.from('x')]) }
    if ((await look(sender, longer)) === 'verified') t.fail(`${nameOf(sender, i)}: a byte more`)
  }
  t.ok(tried > 2_000, `${tried} bodies`)
})

t.test('no changed byte of a signature, timestamp or id passes', async (t) => {
  const next = numbers(12)
  let tried = 0
  for (const [i, sender] of senders.entries()) {
    const delivery = sender.sign(AT)
    for (const field of sender.fields) {
      const value = fieldOf(delivery, field)
      for (let at = 0; at < value.length; at++) {
        const changed = value.slice(0, at) + another(value[at], next) + value.slice(at + 1)
        const shorter = value.slice(0, at) + value.slice(at + 1)
        for (const other of /[\s,]/.test(value[at] as string) ? [changed] : [changed, shorter]) {
          const found = await look(sender, withField(delivery, field, other))
          // The name of a Basic scheme has no case.
          const sameScheme = sender.provider === 'vmware' && other.toLowerCase() === value.toLowerCase()
          if (found === 'verified' && !sameScheme) t.fail(`${nameOf(sender, i)}: ${field} as ${other}`)
          tried++
        }
      }
      t.not(await look(sender, withField(delivery, field, '')), 'verified', `${nameOf(sender, i)}: an empty ${field}`)
      t.not(await look(sender, withoutField(delivery, field)), 'verified', `${nameOf(sender, i)}: no ${field}`)
    }
  }
  t.ok(tried > 4_000, `${tried} fields`)
})

t.test('a field of a signature counts once: nobody can put a second one beside it', async (t) => {
  for (const [i, sender] of senders.entries()) {
    const delivery = sender.sign(AT)
    for (const field of sender.fields) {
      const twice = { ...delivery, headers: [...delivery.headers, field, fieldOf(delivery, field)] }
      const found = await look(sender, twice)
      // Of numbered fields each is a signature of its own.
      if (sender.provider === 'docusign') t.equal(found, 'verified')
      else t.not(found, 'verified', `${nameOf(sender, i)}: ${field}`)
    }
  }
})

t.test('another spelling of the same signature does not pass', async (t) => {
  for (const [i, sender] of senders.entries()) {
    const delivery = sender.sign(AT)
    for (const field of sender.fields) {
      const value = fieldOf(delivery, field)
      const spellings = [value.toUpperCase(), `${value}=`, `${value} `, ` ${value}`.slice(0, -1)]
      // A list may name its signatures twice.
      if (!value.includes(',')) spellings.push(`${value}${value}`)
      for (const other of spellings.filter((one) => one.trim() !== value)) {
        const sameScheme = sender.provider === 'vmware' && other.toLowerCase() === value.toLowerCase()
        if (!sameScheme) t.not(await look(sender, withField(delivery, field, other)), 'verified', nameOf(sender, i))
      }
    }
  }
})

t.test('timestamps may be off by the tolerance and not by a second more', async (t) => {
  for (const [i, sender] of senders.entries()) {
    const { tolerance } = sender
    const delivery = sender.sign(AT)
    if (tolerance === undefined) {
      t.equal(await look(sender, delivery, AT + 30 * 86_400_000), 'verified', nameOf(sender, i))
      continue
    }
    for (const sign of [1, -1]) {
      t.equal(await look(sender, delivery, AT + sign * tolerance * 1000), 'verified', nameOf(sender, i))
      t.equal(await look(sender, delivery, AT + sign * (tolerance + 1) * 1000), 'TIMESTAMP_STALE', nameOf(sender, i))
    }
  }
})

t.test('the secret of another does not pass', async (t) => {
  for (const [i, sender] of senders.entries()) {
    // Neither does a longer or a shorter one, where the sender takes any text.
    for (const secret of ['another', `${sender.secret}x`, sender.secret.slice(0, -1), '']) {
      const found = await inspect(sender.provider, secret, sender.sign(AT), AT)
      // Padding is no part of a key.
      const samePadding = found === 'verified' && sender.secret.replace(/=+$/, '') === secret.replace(/=+$/, '')
      if (!samePadding) t.not(found, 'verified', `${nameOf(sender, i)} with ${secret.length} characters`)
    }
  }
})

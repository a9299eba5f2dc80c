import 'reflect-metadata'
import t from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import type { ServerIdentity } from '../../src/proxy/server-identity.js'
import { OwnTicketKeys } from '../../src/proxy/ticket-keys.js'
import { TlsContexts } from '../../src/proxy/tls.js'
import { authority } from './tls-client.js'

const ticketKeys = new OwnTicketKeys(systemClock)

/** A certificate that counts how often a context is made of it. */
class Counted implements ServerIdentity {
  made = 0
  readonly privateKey: string
  readonly #chain: string

  constructor(chain: string, privateKey: string) {
    this.#chain = chain
    this.privateKey = privateKey
  }

  get chain(): string {
    this.made++
    return this.#chain
  }
}

async function certificates(count: number): Promise<Counted[]> {
  const { pem, key } = await authority('one of many')
  return Array.from({ length: count }, () => new Counted(pem, key))
}

/** Answers how often the event loop turned until then. */
const turns = async (until: () => boolean): Promise<number> => {
  let count = 0
  for (; !until(); count++) await new Promise(setImmediate)
  return count
}

t.test(
  'contexts of the first 1,000 certificates are made ahead, of others on their first use; each once',
  async (t) => {
    const all = await certificates(1_010)
    const contexts = new TlsContexts({ clock: systemClock, ticketKeys })
    const made = () => all.reduce((sum, one) => sum + one.made, 0)
    contexts.ahead(all, () => t.fail('each can be used'))
    t.equal(made(), 0, 'whoever serves the configuration does not wait')
    t.ok((await turns(() => made() === 1_000)) > 50, 'in steps, between which others have their turn')
    for (let i = 0; i < 10; i++) await new Promise(setImmediate)
    t.equal(made(), 1_000)
    t.ok(all.slice(0, 1_000).every((one) => one.made === 1))
    const [ready, late] = [all[3] as Counted, all[1_005] as Counted]
    const context = contexts.of(ready)
    t.equal(contexts.of(ready), context)
    t.equal(ready.made, 1, 'who comes first need not wait')
    t.equal(late.made, 0)
    t.equal(contexts.of(late), contexts.of(late))
    t.equal(late.made, 1)
  }
)

t.test(
  'a configuration that follows at once is made ahead instead, and what both have is not made again',
  async (t) => {
    const all = await certificates(40)
    const contexts = new TlsContexts({ clock: systemClock, ticketKeys })
    contexts.ahead(all.slice(0, 30), () => t.fail('each can be used'))
    await turns(() => (all[5] as Counted).made > 0)
    contexts.ahead(all.slice(5), () => t.fail('each can be used'))
    await turns(() => (all[39] as Counted).made > 0)
    t.ok(all.slice(5).every((one) => one.made === 1))
  }
)

t.test('one that cannot be used is told, and those behind it are made', async (t) => {
  const [good, bad, other] = (await certificates(3)) as [Counted, Counted, Counted]
  const broken: ServerIdentity = { chain: bad.chain, privateKey: 'no key' }
  const contexts = new TlsContexts({ clock: systemClock, ticketKeys })
  const told: ServerIdentity[] = []
  contexts.ahead([good, broken, other], (identity) => told.push(identity))
  await turns(() => other.made > 0)
  t.same(told, [broken])
})

t.test('beyond the most that are kept, the one that was used longest ago is made anew', async (t) => {
  const [a, b, c] = (await certificates(3)) as [Counted, Counted, Counted]
  const contexts = new TlsContexts({ clock: systemClock, ticketKeys, most: 2 })
  for (const one of [a, b, a, c]) contexts.of(one)
  contexts.of(a)
  t.equal(a.made, 1)
  contexts.of(b)
  t.equal(b.made, 2)
})

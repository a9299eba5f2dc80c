import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Readable } from 'node:stream'
import t from 'tap'
import { printPasswordHash } from '../../src/cli/hash-password.js'
import { makeFlow } from '../helpers/flow.js'
import { Kit, outcomeOf } from './kit.js'

const kit = new Kit()

function presenting(pair: string) {
  return makeFlow({ headers: ['Authorization', `Basic ${Buffer.from(pair).toString('base64')}`] })
}

t.test('what sluice hash-password prints opens a policy, and the check holds up no other request', async (t) => {
  for (const format of ['argon2id', 'bcrypt'] as const) {
    const printed: string[] = []
    const out = { write: (text: string) => printed.push(text) }
    t.equal(await printPasswordHash(format, Readable.from(['correct horse\n']), out), 0)
    const hash = printed.join('').trim()
    const run = kit.waiting([['basic-auth', { credentials: [{ username: 'alice', password_hash: hash }] }]])
    t.equal(await run(presenting('alice:correct horse')), undefined, format)
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const guesses = Array.from({ length: 8 }, (_, i) => run(presenting(`alice:guess-${i}`)))
    t.same(new Set((await Promise.all(guesses)).map(outcomeOf)), new Set(['401 BASIC_AUTH']), format)
    delay.disable()
    // Eight checks of bcrypt take two seconds; on the loop each of them would hold it up for a quarter of one.
    t.ok(delay.max < 150e6, `${format}: ${Math.round(delay.max / 1e6)} ms`)
  }
  t.equal(await printPasswordHash('argon2id', Readable.from(['a\nb\n'])), 1)
  t.equal(await printPasswordHash('argon2id', Readable.from([''])), 1)
  t.equal(await printPasswordHash('bcrypt', Readable.from(['x'.repeat(73)])), 1)
})

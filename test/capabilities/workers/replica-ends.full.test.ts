import t from 'tap'
import { ControlError } from '../../../src/control/errors.js'
import type { Unit } from '../../../src/runtime/plan.js'
import { type Account, DENY } from '../../control/account.js'
import { until } from '../../helpers/until.js'
import { ask, same, setup } from './replica-kit.js'

t.test('a thread that ends is replaced, and the new one begins with the plan in pieces', async (t) => {
  const made = await setup(t)
  const { account, threads, pool } = made
  const vault = await account.create('vault', { name: 'words' })
  await account.create('vault_secret', { name: 'first', value: 'of many', vault_id: vault.id })
  const unit = (port: number): Unit => ({ kind: 'upstream', form: 'address', protocol: 'http', host: 'h', port })
  const many = new Map(Array.from({ length: 2_500 }, (_, i) => [`upstream:many-${i}`, unit(i)] as const))
  t.match(await account.control.configuration.applyOwn(many), { ok: true })
  for (const end of ['throws', 'exits', 'takes all memory'] as const) {
    await threads.end(0, end)
    t.equal(pool.serving, 1, end)
    // While its successor is on its way, which gets it with the plan or after it.
    await account.site(`${end.replaceAll(' ', '-')}.test`, DENY)
    await pool.whole()
    await same(t, made)
    t.same(
      (await threads.looks()).map(({ secret }) => secret),
      ['of many', 'of many']
    )
  }
})

t.test('a thread that does not answer makes one write fail and is replaced', async (t) => {
  const made = await setup(t, { prepare: 1_000, silence: 3_000 })
  const { account, threads, pool } = made
  await ask(threads.at(0), { what: 'hangs' })
  await t.rejects(account.site('a.test', DENY), { code: 'BUSY' })
  await until(() => threads.ports.length !== 2 || pool.serving !== 2)
  await pool.whole()
  await untilWritten(account)
  await same(t, made)
})

/** A machine that is busier than this test's patience may refuse some more. */
async function untilWritten(account: Account): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await account.site(`written-${attempt}.test`, DENY)
      return
    } catch (error) {
      if (!(error instanceof ControlError) || error.code !== 'BUSY' || attempt > 20) throw error
    }
  }
}

t.test('writes in a storm of ends reach every thread', async (t) => {
  const made = await setup(t)
  const { account, threads, pool } = made
  let seed = 11
  const below = (limit: number) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed % limit
  }
  const edges: string[] = []
  for (let step = 0; step < 40; step++) {
    if (below(6) === 0) threads.at(below(threads.ports.length || 1))?.postMessage({ what: 'exits' })
    const gone = below(4) === 0 ? edges.pop() : undefined
    if (gone === undefined) edges.push((await account.site(`host-${step}.test`, DENY)).edge)
    else await account.remove('https_edge', { id: gone })
  }
  await pool.whole()
  await same(t, made)
})

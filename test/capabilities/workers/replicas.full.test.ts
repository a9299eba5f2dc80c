import t from 'tap'
import { DENY } from '../../control/account.js'
import { ask, same, setup } from './replica-kit.js'

t.test('a write is answered when every thread serves it', async (t) => {
  const made = await setup(t)
  const { account, threads } = made
  await account.site('a.test', DENY)
  await same(t, made)
  // The answer waits for the slower one.
  await ask(threads.at(1), { what: 'rests', milliseconds: 50 })
  await account.site('slow.test', DENY)
  await same(t, made)
  await ask(threads.at(1), { what: 'rests', milliseconds: 0 })
  const vault = await account.create('vault', { name: 'words' })
  await account.create('vault_secret', { name: 'first', value: 'of many', vault_id: vault.id })
  t.same(
    (await threads.looks()).map(({ secret }) => secret),
    ['of many', 'of many']
  )
  // It means no unit and has a number all the same.
  const { revision } = account.holder.current()
  await account.create('bot_user', { name: 'robot' })
  t.ok(account.holder.current().revision > revision)
  await same(t, made)
})

t.test('a thread that cannot prepare a write makes it fail, and everything is as it was', async (t) => {
  const made = await setup(t)
  const { account, threads, log } = made
  await account.site('a.test', DENY)
  const [before, stored] = [account.holder.current(), await account.store.revision()]
  await ask(threads.at(1), { what: 'ports', taken: true })
  await t.rejects(account.site('b.test', DENY), { code: 'BUSY' })
  t.equal(account.holder.current(), before)
  t.equal(await account.store.revision(), stored)
  await same(t, made)
  t.ok(log.texts.some((line) => line.includes('EADDRINUSE')))
  await ask(threads.at(1), { what: 'ports', taken: false })
  await account.site('b.test', DENY)
  await same(t, made)
})

t.test('a thread that dies in a preparation does not make the write fail', async (t) => {
  const made = await setup(t)
  const { account, threads, pool } = made
  await ask(threads.at(0), { what: 'dies at a preparation' })
  await account.site('a.test', DENY)
  t.equal(pool.serving, 1)
  await pool.whole()
  await same(t, made)
})

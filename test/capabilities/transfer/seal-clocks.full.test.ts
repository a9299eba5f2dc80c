import t, { type Test } from 'tap'
import { parseSealKey, Sealer } from '../../../src/lib/seal.js'
import { ManualClock } from '../../helpers/clock.js'
import { opened } from '../../store/opened.js'
import { startPostgres } from '../../store/postgres-server.js'
import { freshKey, manySecrets, sluice, withStore } from './transfer-stand.js'

t.test('signs of life count, whatever the clocks of those who give them show', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const cwd = t.testdir()
  const [old, next] = [freshKey(), freshKey()]
  const rotate = () =>
    sluice(t, cwd, ['seal', 'rotate', '--store', url], { SLUICE_SEAL_KEY: old, SLUICE_SEAL_KEY_NEW: next })
  const seal = new Sealer(parseSealKey(old))
  await withStore(t, url, async (store) => {
    await manySecrets(store, seal, 1)
    await store.writeUnder(seal.keyId, null)
  })
  const late = await living(t, url, 'proc_late', Date.UTC(2000, 0, 1))
  const early = await living(t, url, 'proc_early', Date.UTC(2100, 0, 1))
  t.match(await rotate(), { code: 1, err: /proc_(late|early).*stop every process/ })
  await early.pause()
  t.match(await rotate(), { code: 1, err: /^.*proc_late runs on this store/ }, 'its clock is decades behind')
  await late.pause()
  await early.resume()
  t.match(await rotate(), { code: 1, err: /^.*proc_early runs on this store/ })
  await early.pause()
  t.match(await rotate(), { code: 0, out: /1 value encrypted again/ }, 'a time that is to come is no sign of life')
})

/** A process that tells its store again and again that it lives, at the time of its own clock. */
async function living(t: Test, url: string, id: string, wall: number) {
  const clock = new ManualClock(wall)
  const { store } = await opened(t, url, clock)
  const report = async () => {
    clock.advance(100)
    await store.reportProcess({ id, appliedRevision: 1, lastError: null, divergedAt: null })
  }
  let timer: NodeJS.Timeout | undefined
  let last = Promise.resolve()
  const resume = async () => {
    await report()
    timer = setInterval(() => {
      last = report()
    }, 100)
  }
  const pause = async () => {
    clearInterval(timer)
    await last
  }
  t.teardown(pause)
  await resume()
  return { resume, pause }
}

import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Store } from '../../../src/store/store.js'
import { SluiceProcess } from '../../cli/process.js'
import { idOf } from '../../resources/bench.js'
import { folder, printed, SITE, sluice, withStore } from './transfer-stand.js'

const counted = async (store: Store, kind: string) => (await store.list(kind, { limit: 100_000 }))?.records.length

t.test('kill -9 in the middle of an import leaves all of it or nothing', async (t) => {
  const count = 2000
  const backends = Array.from({ length: count }, (_, number) => {
    const id = idOf('bkdhr', number)
    return `    - id: ${id}\n      fields: { description: backend ${number}, body: "${'x'.repeat(600)}" }\n`
  })
  const { cwd, data, file } = await folder(t, `${SITE}  http_response_backend:\n${backends.join('')}`)
  const address = join(data, 'sluice.db')
  const writing = async (process: SluiceProcess) => {
    await printed(process, `${count + 2} created, 0 updated, 0 deleted, 0 unchanged`)
    const before = await sizeOf(`${address}-wal`)
    while ((await sizeOf(`${address}-wal`)) <= before && process.child.exitCode === null);
  }
  const outcomes = new Set<number>()
  for (const moment of ['shown', 'writing'] as const) {
    const importing = new SluiceProcess(t, ['import', file, '--partial', '--yes', '--data', data], { cwd })
    if (moment === 'writing') await writing(importing)
    else await printed(importing, 'https_edge:')
    importing.child.kill('SIGKILL')
    await importing.ended()
    const there = await withStore(t, address, async (store) => {
      const all = [await counted(store, 'http_response_backend'), await counted(store, 'https_edge_route')]
      t.ok(['0,0', `${count},1`].includes(all.join()), `${moment}: ${all}`)
      t.equal(await store.revision(), all[1])
      return all[0] ?? 0
    })
    outcomes.add(there)
    if (there > 0) break
  }
  t.ok(outcomes.has(0), 'it was killed before the end at least once')
  const { code, out } = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--data', data])
  t.equal(code, 0)
  t.match(out, /created, 0 updated, 0 deleted/)
  await withStore(t, address, async (store) => t.equal(await counted(store, 'http_response_backend'), count))
})

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

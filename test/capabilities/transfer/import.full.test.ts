import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { RevisionNote } from '../../../src/control/revision-note.js'
import type { Store } from '../../../src/store/store.js'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { idOf } from '../../resources/bench.js'
import { folder, SITE, sluice, withStore } from './transfer-stand.js'

const counted = async (store: Store, kind: string) => (await store.list(kind, { limit: 100_000 }))?.records.length

t.test('it shows what it would do, and does it when it is told to', async (t) => {
  const { cwd, data, file } = await folder(t, SITE)
  const asked = await sluice(t, cwd, ['import', file, '--partial', '--data', data])
  t.equal(asked.code, 2)
  t.match(asked.err, /there is no terminal to ask: give --yes/)
  await t.rejects(stat(data), 'nothing was made')
  const shown = [
    'https_edge:',
    '  + edghts_1 shop.example.com:443',
    'https_edge_route:',
    '  + edghtsrt_1 /',
    '2 created, 0 updated, 0 deleted, 0 unchanged'
  ]
  const dry = await sluice(t, cwd, ['import', file, '--partial', '--dry-run', '--data', data])
  t.same([dry.code, dry.out.split('\n')], [0, shown])
  await withStore(t, join(data, 'sluice.db'), async (store) => t.equal(await store.revision(), 0))
  const done = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--data', data])
  t.same([done.code, done.out.split('\n')], [0, [...shown, 'imported']])
  const again = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--data', data])
  t.same([again.code, again.out], [0, '0 created, 0 updated, 0 deleted, 2 unchanged'])
  await writeFile(file, SITE.replace('/\n', '/new\n').replace(/ {2}https_edge:\n.*\n.*\n/, ''))
  const changed = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--data', data])
  t.match(changed.out, /~ edghtsrt_1 \/new \(match\)/)
  await writeFile(file, 'format: sluice-account/1\n')
  const pruned = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--prune', '--data', data])
  t.match(pruned.out, /- edghtsrt_1[\s\S]*- edghts_1[\s\S]*0 created, 0 updated, 2 deleted, 0 unchanged\nimported$/)
  await withStore(t, join(data, 'sluice.db'), async (store) => {
    t.equal(await counted(store, 'https_edge'), 0)
    t.equal(await store.revision(), 3, 'an import is one revision')
    const notes = (await store.history({ limit: 3 })).map(({ detail }) => detail as unknown as RevisionNote)
    const names = notes.map(({ changes }) => changes?.map(({ name }) => name))
    t.same(
      names,
      [
        ['shop.example.com/new/', 'shop.example.com'],
        ['shop.example.com/new/'],
        ['shop.example.com', 'shop.example.com/']
      ],
      'a route has the name of its site in the history'
    )
  })
})

t.test('what cannot be imported is told with its place in the file', async (t) => {
  const { cwd, data, file } = await folder(t, SITE)
  const cases: [string, string, RegExp][] = [
    [
      'a policy',
      SITE.replace('custom-response', 'custom-respnose'),
      /account\.yaml:15:27: error POLICY_ACTION_UNKNOWN/
    ],
    ['no YAML', 'format: [', /account\.yaml:1:\d+: error SYNTAX/]
  ]
  for (const [name, text, expected] of cases) {
    await writeFile(file, text)
    const { code, err } = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--data', data])
    t.equal(code, 1, name)
    t.match(err, expected, name)
    t.match(err, /nothing was imported$/, name)
  }
  const none = await sluice(t, cwd, ['import', 'nowhere.yaml', '--yes', '--data', data])
  t.same(
    [none.code, none.err],
    [1, 'nothing was imported: nowhere.yaml: there is no such file (ENOENT); correct the path']
  )
})

t.test('a store in a file that a process has open is left alone', async (t) => {
  const { cwd, data, file } = await folder(t, SITE)
  await withStore(t, join(data, 'sluice.db'), async (store) => {
    const { code, err } = await sluice(t, cwd, ['import', file, '--partial', '--yes', '--data', data])
    t.equal(code, 1)
    t.match(err, /^nothing was imported: .*sluice\.db is in use by process \d+/)
    t.equal(await store.revision(), 0)
  })
})

t.test('a reader that does not take what an import does neither holds it up nor loses any of it', async (t) => {
  const count = 10_000
  const entries = Array.from({ length: count }, (_, number) => ({
    id: idOf('vault', number),
    fields: { name: `vault_${number}` }
  }))
  const document = { format: 'sluice-account/1', records: { vault: entries } }
  const { cwd, data, file } = await folder(t, JSON.stringify(document))
  const importing = new SluiceProcess(t, ['import', file, '--partial', '--yes', '--data', data], { cwd })
  importing.child.stdout?.pause()
  const address = join(data, 'sluice.db')
  const sizeOf = async (path: string) => (await stat(path).catch(() => undefined))?.size
  // Closed: everything is in the file, and the log beside it is gone.
  const closed = async () => ((await sizeOf(address)) ?? 0) > 500_000 && (await sizeOf(`${address}-wal`)) === undefined
  await until(async () => importing.child.exitCode !== null || (await closed()))
  await withStore(t, address, async (store) => t.equal(await store.revision(), 1))
  t.equal(importing.child.exitCode, null, 'it still waits for its reader')
  importing.child.stdout?.resume()
  const { code, out } = await importing.ended()
  const lines = out.split('\n')
  t.equal(code, 0)
  t.equal(lines.length, count + 3)
  t.same([lines[0], ...lines.slice(-2)], ['vault:', `${count} created, 0 updated, 0 deleted, 0 unchanged`, 'imported'])
})

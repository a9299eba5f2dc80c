import { readdir, readFile } from 'node:fs/promises'
import t from 'tap'
import { metricEntries } from '../../src/app/catalogue.js'
import { serverCapabilities } from '../../src/capabilities/registry.js'
import { referencePages } from '../../src/cli/reference.js'
import { projectFile } from '../helpers/files.js'

const pages = await referencePages()

t.test('the committed reference is what the code yields; npm run docs writes it', async (t) => {
  t.same((await readdir(projectFile('docs/reference'))).sort(), [...pages.keys()].sort())
  for (const [name, text] of pages) t.equal(await readFile(projectFile(`docs/reference/${name}`), 'utf8'), text, name)
})

t.test('the metrics of the reference are those that a server shows', async (t) => {
  const recorded = await readFile(projectFile('test/surface/expected/metrics.txt'), 'utf8')
  const names = recorded.split('\n').map((line) => line.split(' ')[0] ?? '')
  const off = (await serverCapabilities()).filter(({ enabled }) => enabled !== undefined)
  const unshown = new Set(off.flatMap(({ metrics }) => metrics.map(({ name }) => name)))
  t.same(
    (await metricEntries()).map(({ name }) => name).filter((name) => !unshown.has(name)),
    [...new Set(names.filter((name) => name !== ''))].sort()
  )
})

t.test('every entry of a list has a description', async (t) => {
  for (const name of [...pages.keys()].filter((each) => each.endsWith('.md'))) {
    const rows = (pages.get(name) ?? '').split('\n').filter((line) => line.startsWith('| `'))
    t.ok(rows.length > 10, name)
    for (const row of rows) t.notMatch(row, /\|\s+\|$/, row)
  }
})

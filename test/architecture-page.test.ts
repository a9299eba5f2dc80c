import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

const PAGES = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/decisions.md']
/** A path of the project in code marks; one with a placeholder such as `<name>` or a pattern names no single file. */
const NAMED = /`((?:src|test|docs|config|bench)\/[\w./-]+)`/g

for (const page of PAGES) {
  t.test(`${page} names only files and folders that exist`, async (t) => {
    const named = [...readFileSync(page, 'utf8').matchAll(NAMED)].map(([, name]) => name as string)
    t.ok(named.length > 3, `${named.length} names were looked at`)
    t.same(
      named.filter((name) => !existsSync(name)),
      []
    )
  })
}

t.test('the table of rooms has a line for each folder of src', async (t) => {
  const page = readFileSync('ARCHITECTURE.md', 'utf8')
  const table = /\| room \| what it knows \|\n\| --- \| --- \|\n((?:\|.*\n)+)/.exec(page)?.[1] ?? ''
  const rooms = [...table.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, room]) => room as string)
  const folders = readdirSync('src', { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
  t.same([...rooms].sort(), folders.sort())
})

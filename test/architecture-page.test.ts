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

const TABLES = [
  { heading: 'room', folder: 'src' },
  { heading: 'capability', folder: 'src/capabilities' }
]

for (const { heading, folder } of TABLES) {
  t.test(`the table of each ${heading} has a line for each folder of ${folder}`, async (t) => {
    const page = readFileSync('ARCHITECTURE.md', 'utf8')
    const table =
      new RegExp(`\\| ${heading} \\| content \\|\\n\\| --- \\| --- \\|\\n((?:\\|.*\\n)+)`).exec(page)?.[1] ?? ''
    const lines = [...table.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, name]) => name as string)
    const folders = readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
    t.same([...lines].sort(), folders.sort())
  })
}

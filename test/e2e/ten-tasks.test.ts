import { readFile } from 'node:fs/promises'
import t from 'tap'
import { countLines, tasksOf } from './ten-tasks.js'

const tasks = await tasksOf('ten-tasks.md')
const page = await readFile('docs/ten-tasks.md', 'utf8')

t.test('the table has every task with the numbers of its lines', async (t) => {
  t.equal(tasks.length, 14, 'the page was read')
  const rows = [...page.matchAll(/^\| \[(.+)\]\(#.+\) \| (\d+) \| (\d+)(?:, with the plugin `(.+)`)? \|$/gm)]
  t.same(
    rows.map(([, title, ours, caddy, plugin]) => [title, Number(ours), Number(caddy), plugin]),
    tasks.map(({ title, files }) => {
      const caddyfile = files.get('Caddyfile') ?? ''
      const plugin = /^# with the plugin (\S+)$/m.exec(caddyfile)?.[1]
      return [title, countLines(files.get('sluice.yaml') ?? ''), countLines(caddyfile), plugin]
    })
  )
  for (const [, title, ours, caddy] of rows) t.ok(Number(ours) <= Number(caddy), `${title} takes no more lines`)
})

import { readFile } from 'node:fs/promises'
import t from 'tap'
import { packageVersion } from '../src/lib/files.js'
import { projectFile } from './helpers/files.js'

const VERSION = /^## (\d+\.\d+\.\d+) — (\d{4}-\d{2}-\d{2})$/

t.test(
  'the change log has a dated version for each heading, the newest first, and the newest is that of the package',
  async (t) => {
    const lines = (await readFile(projectFile('CHANGELOG.md'), 'utf8')).split('\n')
    const headings = lines.filter((line) => line.startsWith('## '))
    t.equal(headings[0], '## Unreleased')
    const versions = headings.slice(1).map((heading) => VERSION.exec(heading)?.slice(1) ?? [heading, ''])
    t.ok(versions.length > 1)
    t.equal(versions[0]?.[0], packageVersion())
    const dates = versions.map(([, date]) => date)
    t.same(dates, [...dates].sort().reverse())
    for (const [version, date = ''] of versions) t.ok(date !== '', `${version} has a date`)
  }
)

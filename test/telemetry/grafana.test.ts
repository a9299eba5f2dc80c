import { readFile } from 'node:fs/promises'
import t from 'tap'
import { parse } from 'yaml'
import { projectFile } from '../helpers/files.js'
import { API_KEY, startSluice } from '../helpers/sluice.js'

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[]
}

t.test('the dashboard and the scrape configuration read metrics that a process has', async (t) => {
  const sluice = await startSluice(t)
  const page = await readFile(projectFile('docs/operations.md'), 'utf8')
  const scrape = parse(/```yml\n(scrape_configs:.*?)```/s.exec(page)?.[1] ?? '')
  const [{ metrics_path: path, authorization }] = scrape.scrape_configs
  t.ok(authorization.credentials_file, 'the type of authorization is Bearer by default')
  const answer = await fetch(`http://127.0.0.1:${sluice.apiPort}${path}`, {
    headers: { authorization: `Bearer ${API_KEY}`, accept: 'application/openmetrics-text, text/plain;version=0.0.4' }
  })
  t.equal(answer.status, 200)
  const text = await answer.text()
  const known = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name))
  const { panels } = JSON.parse(await readFile(projectFile('config/grafana/sluice.json'), 'utf8')) as Dashboard
  t.ok(panels.length >= 10)
  for (const { title, targets } of panels) {
    for (const { expr } of targets) {
      const names = expr.match(/\b(?:sluice|process|nodejs)_[a-z0-9_]+/g) ?? []
      t.ok(names.length > 0, `${title} reads a metric`)
      for (const name of names) t.ok(known.has(name.replace(/_bucket$/, '')) || known.has(name), `${title}: ${name}`)
    }
  }
})

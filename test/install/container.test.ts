import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { optionEntries } from '../../src/options/catalogue.js'
import { FOLDER, only, stages } from './containerfile.js'

t.test('the image has two stages, a user without rights, a health check and a signal', async (t) => {
  const [build = [], image = [], ...more] = await stages()
  t.same(more, [])
  t.match(only(build, 'FROM'), / AS build$/)
  const steps = build.filter(({ name }) => name === 'RUN').map(({ text }) => text)
  t.match(steps, [/^npm ci --omit=dev /, /^node config\/binary\.mjs /, /node config\/image\.mjs /])
  t.equal(only(image, 'FROM'), 'scratch', 'no shell, no package manager')
  t.equal(only(image, 'USER'), '65532:65532')
  t.equal(only(image, 'STOPSIGNAL'), 'SIGTERM')
  t.match(only(image, 'HEALTHCHECK'), /CMD \["\/usr\/bin\/sluice", "status", "--ready"\]$/)
  t.same(JSON.parse(only(image, 'ENTRYPOINT')), ['/usr/bin/sluice'], 'no shell is between the signal and the process')
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  for (const [name = ''] of only(image, 'ENV').matchAll(/SLUICE_[A-Z_]+(?==)/g)) t.ok(variables.has(name), name)
})

t.test('the compose file names what exists, and asks for secrets', async (t) => {
  const { services } = parse(await readFile(join(FOLDER, 'compose.yaml'), 'utf8'))
  const variables = new Set(optionEntries().map(({ variable }) => variable))
  for (const name of Object.keys(services.sluice.environment)) {
    t.ok(variables.has(name) || ['SLUICE_API_KEY', 'SLUICE_SEAL_KEY'].includes(name), name)
  }
  t.match(services.sluice, {
    read_only: true,
    cap_drop: ['ALL'],
    build: { dockerfile: 'config/container/Containerfile' }
  })
  for (const name of ['SLUICE_STORE', 'SLUICE_API_KEY', 'SLUICE_SEAL_KEY'])
    t.ok(String(services.sluice.environment[name]).includes(':?'), name)
})

import { createRequire } from 'node:module'
import { cruise } from 'dependency-cruiser'
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config'
import { tierFaults } from './tiers.mjs'

/**
 * Holds the dependency rule of `.dependency-cruiser.cjs`: no import that it does not permit, and no permission that no
 * import uses. Fast tests import nothing that starts a process, a thread, a browser or a database (`test/tiers.mjs`). A tool that sees nothing finds nothing, so the number of modules is checked too.
 */
const LEAST_MODULES = 40

const require = createRequire(import.meta.url)
const { forbidden, options, permissions } = require('../.dependency-cruiser.cjs')
const { output } = await cruise(['src'], { ...options, validate: true, ruleSet: { forbidden } }, undefined, {
  tsConfig: extractTSConfig('tsconfig.json')
})
const seen = output.modules.filter(({ source }) => source.startsWith('src/')).length
const { violations } = output.summary
for (const { rule, from, to, cycle } of violations) {
  const path = cycle === undefined ? to : cycle.map(({ name }) => name).join(' -> ')
  console.error(`${rule.name}: ${from} -> ${path}`)
}
const unused = unusedPermissions(output.modules)
for (const permission of unused) console.error(`unused permission: ${permission}`)
const slow = tierFaults()
for (const fault of slow) console.error(fault)
console.log(
  `${seen} modules, ${violations.length} violations of the dependency rule, ${unused.length} unused permissions`
)
if (seen <= LEAST_MODULES)
  console.error(`only ${seen} modules were seen, more than ${LEAST_MODULES} were expected: the tool is blind`)
if (violations.length > 0 || unused.length > 0 || slow.length > 0 || seen <= LEAST_MODULES) process.exitCode = 1

/** Permissions of folders, packages and leaves that no import of `modules` needs, as `from -> to`. */
function unusedPermissions(modules) {
  const used = new Set()
  const roomOf = (file) => /^src\/(?:capabilities\/)?([^/]+)\//.exec(file)?.[1]
  for (const { source, dependencies } of modules) {
    const folder = roomOf(source)
    if (folder === undefined) continue
    const [, leaf] = /^src\/lib\/([^/]+)\.ts$/.exec(source) ?? []
    for (const { resolved } of dependencies) {
      const to = roomOf(resolved)
      const [, name] = /node_modules\/(?:@types\/)?((?:@[^/]+\/)?[^/]+)\//.exec(resolved) ?? []
      used.add(`${folder} -> ${to ?? name}`)
      if (leaf !== undefined) used.add(`lib/${leaf} -> ${name}`)
    }
  }
  const { folders, packages, leaves, capabilities, capabilityPackages } = permissions
  const given = (table, place) =>
    Object.entries(table).flatMap(([from, allowed]) => allowed.map((to) => `${place}${from} -> ${to}`))
  return [
    ...given(folders, ''),
    ...given(packages, ''),
    ...given(leaves, 'lib/'),
    ...given(capabilities, ''),
    ...given(capabilityPackages, '')
  ].filter((one) => !used.has(one))
}

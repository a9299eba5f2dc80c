import { createRequire } from 'node:module'
import { cruise } from 'dependency-cruiser'
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config'

/**
 * Holds the dependency rule of `.dependency-cruiser.cjs`. A tool that sees nothing finds nothing, so the number of
 * modules is checked too.
 */
const LEAST_MODULES = 40

const require = createRequire(import.meta.url)
const { forbidden, options } = require('../.dependency-cruiser.cjs')
const { output } = await cruise(['src'], { ...options, validate: true, ruleSet: { forbidden } }, undefined, {
  tsConfig: extractTSConfig('tsconfig.json')
})
const seen = output.modules.filter(({ source }) => source.startsWith('src/')).length
const violations = output.summary.violations
for (const { rule, from, to, cycle } of violations) {
  const path = cycle === undefined ? to : cycle.map(({ name }) => name).join(' -> ')
  console.error(`${rule.name}: ${from} -> ${path}`)
}
console.log(`${seen} modules, ${violations.length} violations of the dependency rule`)
if (seen <= LEAST_MODULES)
  console.error(`only ${seen} modules were seen, more than ${LEAST_MODULES} were expected: the tool is blind`)
if (violations.length > 0 || seen <= LEAST_MODULES) process.exitCode = 1

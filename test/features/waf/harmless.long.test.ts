import t from 'tap'
import { compileCrs, crsFolder } from './crs-suite.js'
import {
  attacksLike,
  decideRequest,
  FALSE_POSITIVES,
  HARMLESS_SETTINGS,
  harmlessRequests,
  hasValues
} from './harmless.js'

const skip = crsFolder === undefined ? 'there is no folder of the Core Rule Set: set SLUICE_CRS' : false

t.test('paranoia level 1 denies only harmless requests that ModSecurity denies, too', { skip }, async (t) => {
  const rules = await compileCrs(crsFolder as string, HARMLESS_SETTINGS)
  const matched: Record<string, readonly number[]> = {}
  for (const one of harmlessRequests) {
    const { isDenied, ids } = decideRequest(rules, one)
    if (isDenied || ids.length > 0) matched[one.name] = ids
  }
  t.ok(harmlessRequests.length >= 150, `${harmlessRequests.length} requests`)
  t.same(matched, Object.fromEntries(Object.entries(FALSE_POSITIVES).map(([name, { rules }]) => [name, rules])))
})

t.test('attacks in the values of harmless requests are denied', { skip }, async (t) => {
  const rules = await compileCrs(crsFolder as string, HARMLESS_SETTINGS)
  const attacks = harmlessRequests.filter(hasValues).flatMap(attacksLike)
  t.ok(attacks.length >= 300, `${attacks.length} attacks`)
  t.same(
    attacks.filter((one) => !decideRequest(rules, one).isDenied).map(({ name }) => name),
    []
  )
})

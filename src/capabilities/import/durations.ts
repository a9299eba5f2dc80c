const SECONDS: Readonly<Record<string, number>> = {
  us: 0.000001,
  ms: 0.001,
  s: 1,
  m: 60,
  h: 3600,
  d: 86_400
}

/** Seconds of a duration such as `500ms` or `1m30s`; a bare number counts in `unit`. Undefined if the text is no duration. */
export function secondsOfDuration(text: string, unit: string): number | undefined {
  if (/^\d+(?:\.\d+)?$/.test(text)) return Number(text) * (SECONDS[unit] as number)
  if (!/^(?:\d+(?:\.\d+)?(?:us|ms|[smhd]))+$/.test(text)) return undefined
  let total = 0
  for (const [, count, name] of text.matchAll(/(\d+(?:\.\d+)?)(us|ms|[smhd])/g))
    total += Number(count) * (SECONDS[name as string] as number)
  return total
}

/** Returns the candidate nearest to `word` by edits (insert, delete, replace, swap of neighbours), or undefined if none is near enough. */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase()
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** Returns `; did you mean "x"?` for the nearest candidate, or an empty string. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const near = suggest(word, candidates)
  return near === undefined ? '' : `; did you mean "${near}"?`
}

/** Optimal string alignment distance. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let best = Math.min((previous[j] as number) + 1, (row[j - 1] as number) + 1, (previous[j - 1] as number) + cost)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        best = Math.min(best, (beforePrevious[j - 2] as number) + 1)
      }
      row.push(best)
    }
    beforePrevious = previous
    previous = row
  }
  return previous[b.length] as number
}

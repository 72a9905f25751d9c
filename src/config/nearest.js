/**
 * The known name that somebody may have meant: for the suggestion in an error. Pure.
 */

/**
 * @param {string} name what was written, such as 'batch.max_byte'
 * @param {readonly string[]} known
 * @returns {string | null} the closest of them, or null when none is close: more than a third of its characters
 *   would have to change (or more than two, as two are needed where letters changed places)
 */
export function nearest(name, known) {
  const lower = name.toLowerCase();
  let best = null;
  let bestDistance = Infinity;
  for (const candidate of known) {
    const allowed = Math.max(candidate.length > 3 ? 2 : 1, Math.floor(candidate.length / 3));
    // Their lengths alone differ by more: also keeps very long names cheap.
    if (Math.abs(candidate.length - lower.length) > allowed) continue;
    const distance = editDistance(lower, candidate.toLowerCase());
    if (distance <= allowed && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/**
 * Levenshtein's distance: single characters inserted, removed or replaced.
 * @param {string} a
 * @param {string} b
 * @returns {number}
 */
function editDistance(a, b) {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}

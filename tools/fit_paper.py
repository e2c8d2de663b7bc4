#!/usr/bin/env python3
"""Fits the models of seeds/001 to recorded windows, and draws its figures 4, 5 and 6 again.

    fit_paper.py [--fobs PROGRAM] [--out models/paper.json] [--figures DIR] FILE...

For windows of 70,000 and of 10,000 packets: C1 as two exponentials of the loss rate for network loss and one for a
receiver without CPU (section 3.1.6), the success proportion below a loss rate of 0.0005 (3.1.5), Shapiro and Wilk's
test of normality in each bin of loss rates, and 95% bands. Only what the paper measured is fitted: constant flows at
a tail-drop queue (scenario cbr), and multitasking (those of MULTITASKING). Needs numpy, scipy and matplotlib.
"""

import argparse
import json
import subprocess
import sys

import numpy as np
from scipy import optimize, stats

# Scenarios of the files that are what the paper measured (001, section 3.1.4).
NETWORK = {"cbr"}
MULTITASKING = {"paper", "light", "spark", "sparkbig", "rps"}
LENGTHS = (70_000, 10_000)
# 001, section 3.1.5 and 3.3.
LOSS_RATE_MIN, COMPLEXITY_FROM, LOSS_RATE_MAX = 8e-5, 5e-4, 5e-2
# The standard deviation of the success proportion is not below this: few windows have a loss rate that low.
DEVIATION_MIN = 0.01
BINS = np.geomspace(COMPLEXITY_FROM, LOSS_RATE_MAX, 9)


def windows(program, files, length):
    """(loss rate, C1, success proportion, cause, scenario) of each window with loss."""
    command = [program, "diagnose", "classify", "--json", "--evidence", "--slice", str(length), *files]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    for line in map(json.loads, lines):
        if line["lost"] and line["n"] == length:
            yield (line["lost"] / line["n"], line["complexity"], line["success_proportion"], line["cause"],
                   line["scenario"])


def two_exponentials(p, a, b, c, d):
    return a * np.exp(b * p) + c * np.exp(d * p)


def one_exponential(p, a, b):
    return a * np.exp(b * p)


def fit_curve(model, start, bounds, p, c1):
    """Parameters, their covariance, and the standard deviation of what is left."""
    values, covariance = optimize.curve_fit(model, p, c1, p0=start, bounds=bounds, maxfev=20_000)
    left = c1 - model(p, *values)
    return values, covariance, float(np.sqrt(np.sum(left ** 2) / max(1, len(left) - len(values))))


def band(model, values, covariance, p):
    """Half the width of the 95% confidence band, by the delta method."""
    step = np.maximum(np.abs(values), 1e-3) * 1e-5
    slopes = np.array([(model(p, *(values + h)) - model(p, *(values - h))) / (2 * s)
                       for h, s in zip(np.diag(step), step)])
    return 1.96 * np.sqrt(np.maximum(np.einsum("ip,ij,jp->p", slopes, covariance, slopes), 0))


def normality(p, left):
    """Shapiro and Wilk's p for each bin with at least 8 windows."""
    for low, high in zip(BINS, BINS[1:]):
        inside = left[(p >= low) & (p < high)]
        if len(inside) >= 8:
            yield low, high, len(inside), float(stats.shapiro(inside).pvalue)


def fit_length(rows, length):
    print(f"windows of {length} packets")
    rates = np.array([row[0] for row in rows])
    c1 = np.array([row[1] for row in rows])
    success = np.array([row[2] for row in rows])
    net = np.array([row[3] == "net" and row[4] in NETWORK for row in rows])
    cpu = np.array([row[3] == "cpu" and row[4] in MULTITASKING for row in rows])
    band_c1 = (rates >= COMPLEXITY_FROM) & (rates <= LOSS_RATE_MAX)
    low = (rates >= LOSS_RATE_MIN) & (rates < COMPLEXITY_FROM)
    drawn, file = {}, {"packets": length}
    for name, which, model, start, bounds in (
        ("network", net, two_exponentials, (0.45, 2.0, -0.2, -100.0),
         ((0.05, -5, -1, -2000), (1, 30, 0, -5))),
        ("receiver", cpu, one_exponential, (0.3, 1.0), ((0.05, -20), (1, 30))),
    ):
        p, y = rates[which & band_c1], c1[which & band_c1]
        values, covariance, deviation = fit_curve(model, start, bounds, p, y)
        errors = 1.96 * np.sqrt(np.diag(covariance))
        text = ", ".join(f"{v:.4g} +- {e:.2g}" for v, e in zip(values, errors))
        print(f"  C1, {name}: {len(p)} windows; {text}; deviation {deviation:.4f}")
        for first, last, count, chance in normality(p, y - model(p, *values)):
            word = "rejected" if chance < 0.05 else "not rejected"
            print(f"    loss {first:.4f}..{last:.4f}: {count} windows, normal {word} (p = {chance:.2g})")
        pairs = [[round(float(a), 6), round(float(b), 6)] for a, b in zip(values[::2], values[1::2])]
        file[name] = [pairs, round(deviation, 6)]
        drawn[name] = (p, y, model, values, covariance)
        s = success[which & low]
        mean, spread = (float(np.mean(s)), float(np.std(s))) if len(s) else (float(name == "receiver"), 0.0)
        print(f"  success proportion, {name}: {len(s)} windows; {mean:.4f}, deviation {spread:.4f}")
        file[name + "_success"] = [round(mean, 6), round(max(spread, DEVIATION_MIN), 6)]
        drawn[name + "_success"] = s
    # What the paper did not measure, to show where its method ends.
    everything = {"network": np.array([row[3] == "net" for row in rows]) & band_c1,
                  "receiver": np.array([row[3] == "cpu" for row in rows]) & band_c1}
    drawn["all"] = {name: (rates[which], c1[which]) for name, which in everything.items()}
    return file, drawn


def draw(drawn, length, directory):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"svg.hashsalt": "fobs", "svg.fonttype": "none", "font.size": 9,
                         "figure.figsize": (6.4, 3.6)})
    colours = {"network": "#c0392b", "receiver": "#2471a3"}
    names = {"network": "network contention", "receiver": "CPU contention"}

    def save(figure, name):
        figure.tight_layout()
        figure.savefig(f"{directory}/{name}-{length}.svg", metadata={"Date": None})
        plt.close(figure)

    def axes(title, ylabel):
        figure, plot = plt.subplots()
        plot.set(xscale="log", xlabel="loss rate", ylabel=ylabel, title=title)
        return figure, plot

    every = np.random.default_rng(1)
    figure, plot = axes(f"Complexity of {length}-packet windows, all scenarios (cf. 001, figure 4)", "C1")
    for name, (p, y) in drawn["all"].items():
        shown = every.permutation(len(p))[:250]
        plot.scatter(p[shown], y[shown], s=5, color=colours[name], label=names[name], linewidths=0, alpha=0.6)
    plot.legend()
    save(figure, "complexity")

    figure, plot = plt.subplots()
    plot.set(xlabel="success proportion", ylabel="share of windows",
             title=f"Success proportion at loss rates 0.00008 to 0.0005 (cf. 001, figure 5)")
    for name in colours:
        values = drawn[name + "_success"]
        if len(values):
            plot.hist(values, bins=np.linspace(0, 1, 51), weights=np.full(len(values), 1 / len(values)),
                      color=colours[name], alpha=0.7, label=f"{names[name]} ({len(values)} windows)")
    plot.legend()
    save(figure, "success")

    figure, plot = axes(f"Fits to {length}-packet windows (cf. 001, figure 6)", "C1")
    grid = np.geomspace(COMPLEXITY_FROM, LOSS_RATE_MAX, 80)
    for name in colours:
        p, y, model, values, covariance = drawn[name]
        centre, half = model(grid, *values), band(model, values, covariance, grid)
        plot.plot(grid, centre, color=colours[name], label=names[name])
        plot.fill_between(grid, centre - half, centre + half, color=colours[name], alpha=0.25, linewidth=0)
        for low, high in zip(BINS, BINS[1:]):
            inside = y[(p >= low) & (p < high)]
            if len(inside) >= 3:
                error = 1.96 * np.std(inside, ddof=1) / np.sqrt(len(inside))
                plot.errorbar([np.sqrt(low * high)], [np.mean(inside)], [error], fmt="o", markersize=3,
                              color=colours[name], capsize=2)
    plot.legend()
    save(figure, "fits")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--fobs", default="fobs", help="the program [default: fobs]")
    arguments.add_argument("--out", help="write the fits as a model of the method paper")
    arguments.add_argument("--figures", metavar="DIR", help="draw figures 4 to 6 as SVG")
    arguments.add_argument("files", nargs="+", metavar="FILE")
    options = arguments.parse_args()
    fits = []
    for length in LENGTHS:
        rows = list(windows(options.fobs, options.files, length))
        if not rows:
            sys.exit(f"there are no windows of {length} packets in these files: give longer ones")
        file, drawn = fit_length(rows, length)
        fits.append(file)
        if options.figures:
            draw(drawn, length, options.figures)
    if options.out:
        made = "tools/fit_paper.py, constant flows and multitasking (docs/classifier.md)"
        with open(options.out, "w", encoding="utf-8") as out:
            body = ",\n".join(json.dumps(fit) for fit in fits)
            out.write(f'{{"version": 1, "method": "paper", "made": {json.dumps(made)}, "fits": [\n{body}\n]}}\n')


if __name__ == "__main__":
    main()
